// A client driver with franz-go (docs/driver.md).
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

type request struct {
	Id        int
	Op        string
	Config    map[string]any
	Topic     string
	Partition int32
	Value     string
}

type answer struct {
	Id      int    `json:"id"`
	Library string `json:"library,omitempty"`
	Offset  *int64 `json:"offset,omitempty"`
	Error   string `json:"error,omitempty"`
	Code    int    `json:"code"`
	Message string `json:"message,omitempty"`
}

var (
	output   sync.Mutex
	client   *kgo.Client
	answered bool // by brokers: not with acks=0
)

func write(one answer) {
	line, _ := json.Marshal(one)
	output.Lock()
	defer output.Unlock()
	os.Stdout.Write(append(line, '\n'))
}

func failed(id int, err error) answer {
	var of *kerr.Error
	if errors.As(err, &of) {
		return answer{Id: id, Error: of.Message, Code: int(of.Code), Message: err.Error()}
	}
	return answer{Id: id, Error: "CLIENT", Code: -1, Message: err.Error()}
}

func open(config map[string]any) error {
	text := func(name string) string { value, _ := config[name].(string); return value }
	millis := func(name string) time.Duration {
		value, _ := config[name].(float64)
		return time.Duration(value) * time.Millisecond
	}
	options := []kgo.Opt{
		kgo.SeedBrokers(strings.Split(text("bootstrap.servers"), ",")...),
		kgo.ClientID(text("client.id")),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerLinger(millis("linger.ms")),
		kgo.RecordDeliveryTimeout(max(millis("message.timeout.ms"), time.Second)),
		kgo.ProduceRequestTimeout(max(millis("request.timeout.ms"), 100*time.Millisecond)),
		kgo.MetadataMinAge(100 * time.Millisecond),
		kgo.MetadataMaxAge(time.Second),
	}
	answered = text("acks") != "0"
	acks := map[string]kgo.Acks{"0": kgo.NoAck(), "1": kgo.LeaderAck(), "all": kgo.AllISRAcks()}
	options = append(options, kgo.RequiredAcks(acks[text("acks")]))
	if idempotent, _ := config["enable.idempotence"].(bool); !idempotent {
		options = append(options, kgo.DisableIdempotentWrite())
	}
	if retries, given := config["retries"].(float64); given {
		options = append(options, kgo.RecordRetries(int(retries)))
	}
	var codec = map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	}
	options = append(options, kgo.ProducerBatchCompression(codec[text("compression.type")]))
	var err error
	client, err = kgo.NewClient(options...)
	return err
}

func reach(topic string) error {
	ask := kmsg.NewMetadataRequest()
	ask.Topics = []kmsg.MetadataRequestTopic{{Topic: kmsg.StringPtr(topic)}}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	got, err := ask.RequestWith(ctx, client)
	if err == nil && len(got.Topics) > 0 {
		err = kerr.ErrorForCode(got.Topics[0].ErrorCode)
	}
	return err
}

func serve(one request) {
	switch one.Op {
	case "open":
		if err := open(one.Config); err != nil {
			write(failed(one.Id, err))
			return
		}
		write(answer{Id: one.Id, Library: "franz-go " + os.Getenv("FRANZ_GO")})
	case "send":
		record := &kgo.Record{Topic: one.Topic, Partition: one.Partition, Value: []byte(one.Value)}
		client.Produce(context.Background(), record, func(sent *kgo.Record, err error) {
			if err != nil {
				write(failed(one.Id, err))
			} else if answered {
				write(answer{Id: one.Id, Offset: &sent.Offset})
			} else {
				write(answer{Id: one.Id})
			}
		})
	case "reach":
		if err := reach(one.Topic); err != nil {
			write(failed(one.Id, err))
		} else {
			write(answer{Id: one.Id})
		}
	default:
		write(answer{Id: one.Id, Error: "UNKNOWN_OP", Code: -1, Message: strconv.Quote(one.Op)})
	}
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var one request
		if json.Unmarshal(lines.Bytes(), &one) == nil {
			serve(one)
		}
	}
}
