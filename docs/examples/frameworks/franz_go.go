// Copy records with franz-go: outputs are awaited before their positions are committed.
package main

import (
	"context"
	"log"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/twmb/franz-go/pkg/kgo"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	client, err := kgo.NewClient(
		kgo.SeedBrokers(strings.Split(os.Getenv("KAFKA_BOOTSTRAP_SERVERS"), ",")...),
		kgo.ConsumerGroup(os.Getenv("HIGHWATER_GROUP")),
		kgo.ConsumeTopics(os.Getenv("HIGHWATER_IN")),
		kgo.DefaultProduceTopic(os.Getenv("HIGHWATER_OUT")),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(),
		kgo.BlockRebalanceOnPoll(),
	)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	for ctx.Err() == nil {
		var outputs []*kgo.Record
		client.PollRecords(ctx, 50).EachRecord(func(record *kgo.Record) {
			outputs = append(outputs, &kgo.Record{Key: record.Key, Value: record.Value})
		})
		if err := client.ProduceSync(context.Background(), outputs...).FirstErr(); err != nil {
			log.Fatal(err)
		}
		if err := client.CommitUncommittedOffsets(context.Background()); err != nil {
			log.Print(err)
		}
		client.AllowRebalance()
	}
}
