// Copy records with kafka-go's ConsumerGroup: each generation begins anew, and commits as itself.
// With `read` the input is committed first: at most once.
package main

import (
	"context"
	"errors"
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
	topic := os.Getenv("HIGHWATER_IN")
	writer := &kafka.Writer{
		Addr: kafka.TCP(brokers...), Topic: os.Getenv("HIGHWATER_OUT"),
		RequiredAcks: kafka.RequireAll, BatchTimeout: 5 * time.Millisecond,
	}
	defer writer.Close()
	group, err := kafka.NewConsumerGroup(kafka.ConsumerGroupConfig{
		ID: os.Getenv("HIGHWATER_GROUP"), Brokers: brokers, Topics: []string{topic},
		SessionTimeout: 6 * time.Second, HeartbeatInterval: time.Second,
		JoinGroupBackoff: time.Second, StartOffset: kafka.FirstOffset,
	})
	if err != nil {
		log.Fatal(err)
	}
	defer group.Close()
	for ctx.Err() == nil {
		generation, err := group.Next(ctx)
		if err != nil {
			log.Print(err)
			continue
		}
		for _, assigned := range generation.Assignments[topic] {
			generation.Start(func(ctx context.Context) {
				if err := work(ctx, generation, brokers, topic, assigned, writer); !errors.Is(err, kafka.ErrGenerationEnded) {
					log.Print(err)
				}
			})
		}
	}
}

func work(ctx context.Context, generation *kafka.Generation, brokers []string, topic string,
	assigned kafka.PartitionAssignment, writer *kafka.Writer) error {
	reader := kafka.NewReader(kafka.ReaderConfig{Brokers: brokers, Topic: topic, Partition: assigned.ID})
	defer reader.Close()
	if err := reader.SetOffset(assigned.Offset); err != nil {
		return err
	}
	first := slices.Contains(os.Args, "read")
	for {
		record, err := reader.ReadMessage(ctx)
		if err != nil {
			return err
		}
		position := map[string]map[int]int64{topic: {record.Partition: record.Offset + 1}}
		commit := func() error { return generation.CommitOffsets(position) }
		write := func() error {
			return writer.WriteMessages(context.Background(), kafka.Message{Key: record.Key, Value: record.Value})
		}
		steps := []func() error{write, commit}
		if first {
			slices.Reverse(steps)
		}
		for _, step := range steps {
			if err := step(); err != nil {
				return err
			}
		}
	}
}
