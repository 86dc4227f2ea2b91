// Copy records with kafka-go: an output is awaited, and then its input is committed.
// With `read` the input is committed first (ReadMessage): at most once. With `last` a partition
// without a committed offset is read from its end.
package main

import (
	"context"
	"log"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/segmentio/kafka-go"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	brokers := strings.Split(os.Getenv("KAFKA_BOOTSTRAP_SERVERS"), ",")
	config := kafka.ReaderConfig{
		Brokers: brokers, GroupID: os.Getenv("HIGHWATER_GROUP"), Topic: os.Getenv("HIGHWATER_IN"),
		SessionTimeout: 6 * time.Second, HeartbeatInterval: time.Second,
		JoinGroupBackoff: time.Second, ErrorLogger: kafka.LoggerFunc(log.Printf),
	}
	if slices.Contains(os.Args, "last") {
		config.StartOffset, config.MaxWait = kafka.LastOffset, time.Second
	}
	reader := kafka.NewReader(config)
	defer reader.Close()
	writer := &kafka.Writer{
		Addr: kafka.TCP(brokers...), Topic: os.Getenv("HIGHWATER_OUT"),
		RequiredAcks: kafka.RequireAll, BatchTimeout: 5 * time.Millisecond,
	}
	defer writer.Close()
	first := slices.Contains(os.Args, "read")
	next := reader.FetchMessage
	if first {
		next = reader.ReadMessage
	}
	for ctx.Err() == nil {
		record, err := next(ctx)
		if err != nil {
			log.Print(err)
			continue
		}
		output := kafka.Message{Key: record.Key, Value: record.Value}
		if err := writer.WriteMessages(context.Background(), output); err != nil {
			log.Fatal(err)
		}
		if !first {
			if err := reader.CommitMessages(ctx, record); err != nil {
				log.Print(err)
			}
		}
	}
}
