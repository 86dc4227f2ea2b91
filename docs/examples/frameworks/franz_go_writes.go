// Write orders with franz-go, each in at most a second; print what brokers have acknowledged.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	client, err := kgo.NewClient(
		kgo.SeedBrokers(strings.Split(os.Getenv("KAFKA_BOOTSTRAP_SERVERS"), ",")...),
		kgo.DefaultProduceTopic(os.Getenv("HIGHWATER_OUT")),
		kgo.ProduceRequestTimeout(500*time.Millisecond),
	)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	start := fmt.Sprintf("%s-%d", os.Getenv("HIGHWATER_INSTANCE"), time.Now().UnixNano())
	for number := 0; ctx.Err() == nil; number++ {
		order := fmt.Sprintf("order-%s-%d", start, number)
		limited, cancel := context.WithTimeout(context.Background(), time.Second)
		err := client.ProduceSync(limited, kgo.StringRecord(order)).FirstErr()
		cancel()
		if err != nil {
			log.Print(order, " is given up: ", err)
		} else {
			fmt.Println("HIGHWATER_ACKNOWLEDGED", order)
		}
		time.Sleep(10 * time.Millisecond)
	}
}
