// A client driver with franz-go (docs/driver.md).
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"os"
	"runtime/debug"
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
	Role      string
	Config    map[string]any
	Topic     string
	Partition int32
	Value     string
	Offsets   map[int32]int64

	Partitions []int32
	Event      int
	Max        int
	WaitMs     int `json:"wait_ms"`
}

type answer struct {
	Id         int             `json:"id"`
	Library    string          `json:"library,omitempty"`
	Offset     *int64          `json:"offset,omitempty"`
	Records    []record        `json:"records,omitempty"`
	OutOfRange map[int32]int64 `json:"out_of_range,omitempty"`
	First      int64           `json:"first,omitempty"`
	End        int64           `json:"end,omitempty"`
	Error      string          `json:"error,omitempty"`
	Code       int             `json:"code"`
	Again      bool            `json:"again,omitempty"`
	Message    string          `json:"message,omitempty"`
	Event      string          `json:"event,omitempty"`
	Partitions []int32         `json:"partitions,omitempty"`
	Generation int32           `json:"generation,omitempty"`
	Offsets    map[int32]int64 `json:"offsets,omitempty"`
}

type record struct {
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
	Value     string `json:"value"`
	Epoch     int32  `json:"epoch"`
}

// member is a consumer in a group: franz-go calls its methods at each rebalance.
type member struct {
	name    string
	topic   string
	events  int
	handled chan int

	begun map[int32]bool // by its partitions: whether franz-go reads it already
}

var (
	output    sync.Mutex
	client    *kgo.Client
	answered  bool    // by brokers: not with acks=0
	committed bool    // a consumer that reads committed records only
	in        *member // nil: of no group

	places struct { // of the partitions that are read
		sync.Mutex
		next map[int32]int64
	}

	refusal struct { // the first failed send of the open transaction
		sync.Mutex
		err error
	}
)

// refused is the error of a failed send, for its transaction: a commit, repeated, has it again.
type refused struct{ error }

func (r refused) Unwrap() error { return r.error }

func write(one answer) {
	line, _ := json.Marshal(one)
	output.Lock()
	defer output.Unlock()
	os.Stdout.Write(append(line, '\n'))
}

func failed(id int, err error) answer {
	var of *kerr.Error
	if errors.As(err, &of) {
		var by refused
		again := (of.Retriable || of == kerr.ConcurrentTransactions) && !errors.As(err, &by)
		return answer{Id: id, Error: of.Message, Code: int(of.Code), Again: again, Message: err.Error()}
	}
	return answer{Id: id, Error: "CLIENT", Code: -1, Message: err.Error()}
}

func open(role string, config map[string]any) error {
	text := func(name string) string { value, _ := config[name].(string); return value }
	millis := func(name string) time.Duration {
		value, _ := config[name].(float64)
		return time.Duration(value) * time.Millisecond
	}
	options := []kgo.Opt{
		kgo.SeedBrokers(strings.Split(text("bootstrap.servers"), ",")...),
		kgo.ClientID(text("client.id")),
		kgo.MetadataMinAge(100 * time.Millisecond),
		kgo.MetadataMaxAge(time.Second),
		kgo.RequestTimeoutOverhead(max(millis("socket.timeout.ms"), 100*time.Millisecond)),
	}
	if backoff := millis("retry.backoff.ms"); backoff > 0 {
		options = append(options, kgo.RetryBackoffFn(func(int) time.Duration { return backoff }))
	}
	var err error
	if role == "consumer" {
		if name := text("group.id"); name != "" {
			in = &member{name: name, handled: make(chan int)}
			options = append(options, in.options()...)
			if text("group.protocol") == "consumer" { // whose times are the brokers'
				ctx := context.WithValue(context.Background(), "opt_in_kafka_next_gen_balancer_beta", true)
				options = append(options, kgo.WithContext(ctx))
			} else {
				options = append(options, kgo.SessionTimeout(millis("session.timeout.ms")))
				options = append(options, kgo.HeartbeatInterval(millis("heartbeat.interval.ms")))
			}
		}
		if committed = text("isolation.level") == "read_committed"; committed {
			options = append(options, kgo.FetchIsolationLevel(kgo.ReadCommitted()))
		}
		options = append(options, kgo.ConsumeResetOffset(kgo.NoResetOffset()))
		client, err = kgo.NewClient(options...)
		return err
	}
	options = append(options,
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerLinger(millis("linger.ms")),
		kgo.RecordDeliveryTimeout(max(millis("message.timeout.ms"), time.Second)),
		kgo.ProduceRequestTimeout(max(millis("request.timeout.ms"), 100*time.Millisecond)),
	)
	if name := text("transactional.id"); name != "" {
		options = append(options, kgo.TransactionalID(name))
		options = append(options, kgo.TransactionTimeout(millis("transaction.timeout.ms")))
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

// refuse keeps the first failed send of a transaction; nil: a new one begins.
func refuse(err error) {
	refusal.Lock()
	defer refusal.Unlock()
	if err == nil || refusal.err == nil {
		refusal.err = err
	}
}

func version() string {
	info, _ := debug.ReadBuildInfo()
	for _, library := range info.Deps {
		if library.Path == "github.com/twmb/franz-go" {
			return strings.TrimPrefix(library.Version, "v")
		}
	}
	return ""
}

// transact does what a producer asks its coordinator.
func transact(op string) error {
	ctx := context.Background()
	switch op {
	case "init":
		_, _, err := client.ProducerID(ctx)
		return err
	case "begin":
		refuse(nil)
		return client.BeginTransaction()
	case "commit": // after a failed send the program has to abort, as the library's examples do
		if err := client.Flush(ctx); err != nil {
			return err
		}
		refusal.Lock()
		defer refusal.Unlock()
		if refusal.err != nil {
			return refused{refusal.err}
		}
		return client.EndTransaction(ctx, kgo.TryCommit)
	}
	if err := client.AbortBufferedRecords(ctx); err != nil {
		return err
	}
	return client.EndTransaction(ctx, kgo.TryAbort)
}

func (m *member) options() []kgo.Opt {
	tell := func(event string) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, by *kgo.Client, topics map[string][]int32) {
			m.tell(event, by, topics[m.topic])
		}
	}
	return []kgo.Opt{
		kgo.ConsumerGroup(m.name),
		kgo.DisableAutoCommit(),
		kgo.RequireStableFetchOffsets(),
		kgo.OnPartitionsAssigned(tell("assigned")),
		kgo.OnPartitionsRevoked(tell("revoked")),
		kgo.OnPartitionsLost(tell("lost")),
		kgo.AdjustFetchOffsetsFn(m.begin),
	}
}

// tell says what has happened to partitions, and waits until that is handled.
func (m *member) tell(event string, by *kgo.Client, partitions []int32) {
	places.Lock()
	for _, partition := range partitions {
		delete(places.next, partition)
		delete(m.begun, partition)
		if event == "assigned" {
			m.begun[partition] = false
		}
	}
	places.Unlock()
	_, generation := by.GroupMetadata()
	m.events++
	write(answer{Id: m.events, Event: event, Partitions: partitions, Generation: generation})
	for number := range m.handled {
		if number == m.events {
			return
		}
	}
}

// begin says where partitions begin that were assigned.
func (m *member) begin(_ context.Context, offsets map[string]map[int32]kgo.Offset) (map[string]map[int32]kgo.Offset, error) {
	places.Lock()
	defer places.Unlock()
	for partition, offset := range places.next {
		if _, there := offsets[m.topic][partition]; there {
			offsets[m.topic][partition] = kgo.NewOffset().At(offset)
		}
	}
	for partition := range offsets[m.topic] {
		m.begun[partition] = true
	}
	return offsets, nil
}

func (m *member) seek(offsets map[int32]int64) error {
	places.Lock()
	defer places.Unlock()
	for partition := range offsets {
		if _, assigned := m.begun[partition]; !assigned {
			return errors.New("its partitions are revoked")
		}
	}
	for partition, offset := range offsets {
		places.next[partition] = offset
		if m.begun[partition] {
			there := map[int32]kgo.EpochOffset{partition: {Epoch: -1, Offset: offset}}
			client.SetOffsets(map[string]map[int32]kgo.EpochOffset{m.topic: there})
		}
	}
	return nil
}

func (m *member) commit(offsets map[int32]int64) (err error) {
	there := map[int32]kgo.EpochOffset{}
	for partition, offset := range offsets {
		there[partition] = kgo.EpochOffset{Epoch: -1, Offset: offset}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	client.CommitOffsetsSync(ctx, map[string]map[int32]kgo.EpochOffset{m.topic: there},
		func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, got *kmsg.OffsetCommitResponse, failed error) {
			err = failed
			if got == nil {
				return
			}
			for _, topic := range got.Topics {
				for _, partition := range topic.Partitions {
					err = errors.Join(err, kerr.ErrorForCode(partition.ErrorCode))
				}
			}
		})
	return err
}

func (m *member) committed(topic string, partitions []int32) (map[int32]int64, error) {
	ask := kmsg.NewOffsetFetchRequest()
	of := kmsg.NewOffsetFetchRequestTopic()
	of.Topic, of.Partitions = topic, partitions
	ask.Group, ask.RequireStable, ask.Topics = m.name, true, []kmsg.OffsetFetchRequestTopic{of}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	got, err := ask.RequestWith(ctx, client)
	if err == nil {
		err = kerr.ErrorForCode(got.ErrorCode)
	}
	if err != nil {
		return nil, err
	}
	offsets := map[int32]int64{}
	for _, topic := range got.Topics {
		for _, partition := range topic.Partitions {
			if err := kerr.ErrorForCode(partition.ErrorCode); err != nil {
				return nil, err
			} else if partition.Offset >= 0 {
				offsets[partition.Partition] = partition.Offset
			}
		}
	}
	return offsets, nil
}

// ask serves a member's request.
func (m *member) ask(one request) {
	said := answer{Id: one.Id}
	var err error
	switch one.Op {
	case "subscribe":
		m.topic, m.begun = one.Topic, map[int32]bool{}
		client.AddConsumeTopics(one.Topic)
	case "seek":
		err = m.seek(one.Offsets)
	case "commit":
		err = m.commit(one.Offsets)
	case "committed":
		said.Offsets, err = m.committed(one.Topic, one.Partitions)
	case "handled":
		m.handled <- one.Event
	case "close":
		client.Close()
	}
	if err != nil {
		said = failed(one.Id, err)
	}
	write(said)
}

func seek(topic string, offsets map[int32]int64) {
	gone := map[string][]int32{}
	there := map[int32]kgo.Offset{}
	places.Lock()
	defer places.Unlock()
	for partition, offset := range offsets {
		gone[topic] = append(gone[topic], partition)
		there[partition] = kgo.NewOffset().At(offset)
		places.next[partition] = offset
	}
	client.RemoveConsumePartitions(gone)
	client.AddConsumePartitions(map[string]map[int32]kgo.Offset{topic: there})
}

func poll(one request) answer {
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(one.WaitMs)*time.Millisecond)
	defer cancel()
	found := answer{Id: one.Id, OutOfRange: map[int32]int64{}}
	fetches := client.PollRecords(ctx, one.Max)
	places.Lock()
	defer places.Unlock()
	fetches.EachRecord(func(r *kgo.Record) {
		places.next[r.Partition] = r.Offset + 1
		found.Records = append(found.Records, record{r.Partition, r.Offset, string(r.Value), r.LeaderEpoch})
	})
	fetches.EachError(func(_ string, partition int32, err error) {
		if errors.Is(err, kerr.OffsetOutOfRange) {
			found.OutOfRange[partition] = places.next[partition]
		} else if !errors.Is(err, context.DeadlineExceeded) {
			os.Stderr.WriteString(err.Error() + "\n")
		}
	})
	return found
}

func bounds(one request) answer {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	var found [2]int64
	for index, time := range []int64{-2, -1} { // the earliest, the latest
		ask := kmsg.NewListOffsetsRequest()
		if committed {
			ask.IsolationLevel = 1
		}
		partition := kmsg.NewListOffsetsRequestTopicPartition()
		partition.Partition, partition.Timestamp = one.Partition, time
		topic := kmsg.NewListOffsetsRequestTopic()
		topic.Topic, topic.Partitions = one.Topic, []kmsg.ListOffsetsRequestTopicPartition{partition}
		ask.Topics = []kmsg.ListOffsetsRequestTopic{topic}
		got, err := ask.RequestWith(ctx, client)
		if err == nil {
			err = kerr.ErrorForCode(got.Topics[0].Partitions[0].ErrorCode)
		}
		if err != nil {
			return failed(one.Id, err)
		}
		found[index] = got.Topics[0].Partitions[0].Offset
	}
	return answer{Id: one.Id, First: found[0], End: found[1]}
}

func serve(one request) {
	switch one.Op {
	case "subscribe", "seek", "commit", "committed", "handled", "close":
		if in != nil {
			go in.ask(one)
			return
		}
	}
	switch one.Op {
	case "open":
		if err := open(one.Role, one.Config); err != nil {
			write(failed(one.Id, err))
			return
		}
		write(answer{Id: one.Id, Library: "franz-go " + version()})
	case "send":
		record := &kgo.Record{Topic: one.Topic, Partition: one.Partition, Value: []byte(one.Value)}
		client.Produce(context.Background(), record, func(sent *kgo.Record, err error) {
			if err != nil {
				refuse(err)
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
	case "init", "begin", "commit", "abort":
		if err := transact(one.Op); err != nil {
			write(failed(one.Id, err))
		} else {
			write(answer{Id: one.Id})
		}
	case "seek":
		seek(one.Topic, one.Offsets)
		write(answer{Id: one.Id})
	case "poll":
		write(poll(one))
	case "bounds":
		write(bounds(one))
	default:
		write(answer{Id: one.Id, Error: "UNKNOWN_OP", Code: -1, Message: strconv.Quote(one.Op)})
	}
}

func main() {
	places.next = map[int32]int64{}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var one request
		if json.Unmarshal(lines.Bytes(), &one) == nil {
			serve(one)
		}
	}
}
