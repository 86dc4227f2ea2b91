// A client driver with sarama (docs/driver.md).
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"log"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/IBM/sarama"
)

type request struct {
	Id        int
	Op        string
	Role      string
	Config    settings
	Topic     string
	Partition int32
	Value     string
	Offsets   map[int32]int64
	Member    string // of offsets in transactions: the group, which has no members
	Max       int
	WaitMs    int `json:"wait_ms"`
	// Of groups:
	Partitions []int32
	Event      int
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
	Offsets    map[int32]int64 `json:"offsets,omitempty"`
	Event      string          `json:"event,omitempty"`
	Partitions []int32         `json:"partitions,omitempty"`
	Generation int32           `json:"generation,omitempty"`
	Again      bool            `json:"again,omitempty"`
	Fatal      bool            `json:"fatal,omitempty"`
	Message    string          `json:"message,omitempty"`
}

type record struct {
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
	Value     string `json:"value"`
}

// delivery is a send that has no answer yet.
type delivery struct {
	id       int
	answered atomic.Bool
}

// reader reads one partition from a position until it is stopped.
type reader struct {
	topic     string
	partition int32
	position  int64
	running   context.Context
	stop      func()
	done      chan struct{}
}

// found is a record, or a position that is not in the log. A member's has its session.
type found struct {
	by      *reader
	session sarama.ConsumerGroupSession
	record  *sarama.ConsumerMessage
	offset  int64
}

// member is a consumer in a group: sarama calls its methods at each rebalance.
type member struct {
	name    string
	group   sarama.ConsumerGroup
	session sarama.ConsumerGroupSession // nil while it has no partitions
	revoked bool                        // its partitions are, or soon will be, of other members
	stored  map[int32]int64             // the group's offsets, as they were asked for last
	asks    sync.Mutex
	events  int
	handled chan int
}

var (
	output   sync.Mutex
	client   sarama.Client
	consumer sarama.Consumer
	producer sarama.AsyncProducer
	deadline time.Duration              // message.timeout.ms, which sarama has not
	work     = make(chan func(), 1<<16) // of the producer, in the order of the requests
	in       *member                    // nil: of no group
	readers  = map[int32]*reader{}
	arrived  = make(chan found, 256)
)

func write(one answer) {
	line, _ := json.Marshal(one)
	output.Lock()
	defer output.Unlock()
	os.Stdout.Write(append(line, '\n'))
}

// result answers with an error, if there is one. Brokers' errors have a sentence for a name.
func result(id int, err error) answer {
	var of sarama.KError
	if err == nil {
		return answer{Id: id}
	} else if errors.As(err, &of) {
		name := strings.TrimPrefix(of.Error(), "kafka server: ")
		return answer{Id: id, Error: name, Code: int(of), Message: err.Error()}
	}
	return answer{Id: id, Error: "CLIENT", Code: -1, Message: err.Error()}
}

func version() string {
	info, _ := debug.ReadBuildInfo()
	for _, module := range info.Deps {
		if module.Path == "github.com/IBM/sarama" {
			return strings.TrimPrefix(module.Version, "v")
		}
	}
	return "unknown"
}

type settings map[string]any

func (s settings) text(name string) string { value, _ := s[name].(string); return value }

func (s settings) millis(name string, least time.Duration) time.Duration {
	value, _ := s[name].(float64)
	return max(time.Duration(value)*time.Millisecond, least)
}

func open(role string, given settings) error {
	config := sarama.NewConfig()
	config.ClientID = given.text("client.id")
	config.Metadata.Full = false // or no client is opened while no broker answers
	config.Metadata.AllowAutoTopicCreation = false
	config.Metadata.RefreshFrequency = time.Second
	timeout := given.millis("socket.timeout.ms", 100*time.Millisecond)
	config.Net.DialTimeout, config.Net.ReadTimeout, config.Net.WriteTimeout = timeout, timeout, timeout
	backoff := given.millis("retry.backoff.ms", 100*time.Millisecond)
	if role == "producer" {
		if err := producing(config, given, backoff); err != nil {
			return err
		}
	} else if given.text("isolation.level") == "read_committed" {
		config.Consumer.IsolationLevel = sarama.ReadCommitted
	}
	name := given.text("group.id")
	if name != "" && given.text("group.protocol") == "consumer" {
		return errors.New("sarama has classic groups only")
	}
	config.Consumer.Return.Errors = name != ""
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Enable = false
	config.Consumer.Group.Session.Timeout = given.millis("session.timeout.ms", time.Second)
	config.Consumer.Group.Heartbeat.Interval = given.millis("heartbeat.interval.ms", 100*time.Millisecond)
	config.Consumer.Retry.Backoff = backoff
	var err error
	client, err = sarama.NewClient(strings.Split(given.text("bootstrap.servers"), ","), config)
	if err == nil && name != "" {
		in = &member{name: name, handled: make(chan int)}
		in.group, err = sarama.NewConsumerGroupFromClient(name, client)
	} else if err == nil && role == "consumer" {
		consumer, err = sarama.NewConsumerFromClient(client)
	}
	return err
}

func producing(config *sarama.Config, given settings, backoff time.Duration) error {
	deadline = given.millis("message.timeout.ms", time.Second)
	to := &config.Producer
	to.Return.Successes = true
	to.Partitioner = sarama.NewManualPartitioner
	to.Timeout = given.millis("request.timeout.ms", 100*time.Millisecond)
	to.Flush.Frequency = given.millis("linger.ms", 0)
	to.Retry.Backoff = backoff
	to.Retry.Max = int(deadline / backoff) // sarama counts retries, and not their time
	if retries, fixed := given["retries"].(float64); fixed {
		to.Retry.Max = int(retries)
	}
	acks := map[string]sarama.RequiredAcks{
		"0": sarama.NoResponse, "1": sarama.WaitForLocal, "all": sarama.WaitForAll,
	}
	to.RequiredAcks = acks[given.text("acks")]
	if to.Idempotent, _ = given["enable.idempotence"].(bool); to.Idempotent {
		config.Net.MaxOpenRequests = 1 // as sarama asks for
	}
	if name := given.text("transactional.id"); name != "" {
		to.Transaction.ID = name
		to.Transaction.Timeout = given.millis("transaction.timeout.ms", time.Second)
	}
	return to.Compression.UnmarshalText([]byte(given.text("compression.type")))
}

// produce opens the producer, which asks brokers for its number, and answers what it has sent.
func produce() error {
	opened, err := sarama.NewAsyncProducerFromClient(client)
	if err != nil {
		return err
	}
	producer = opened
	go func() {
		for sent := range opened.Successes() {
			said := answer{Offset: &sent.Offset}
			if sent.Offset < 0 { // as it was: brokers did not tell it
				said.Offset = nil
			}
			settle(sent.Metadata.(*delivery), said)
		}
	}()
	go func() {
		for lost := range opened.Errors() {
			settle(lost.Msg.Metadata.(*delivery), result(0, lost.Err))
		}
	}()
	return nil
}

func settle(of *delivery, with answer) {
	if of.answered.CompareAndSwap(false, true) {
		with.Id = of.id
		write(with)
	}
}

func send(one request) {
	of := &delivery{id: one.Id}
	time.AfterFunc(deadline, func() {
		settle(of, answer{Error: "MESSAGE_TIMED_OUT", Code: -1, Message: "no answer in " + deadline.String()})
	})
	value := sarama.StringEncoder(one.Value)
	record := &sarama.ProducerMessage{
		Topic: one.Topic, Partition: one.Partition, Value: value, Metadata: of, Offset: -1,
	}
	work <- func() {
		if of.answered.Load() {
			return
		}
		if producer == nil {
			if err := produce(); err != nil {
				settle(of, result(0, err))
				return
			}
		}
		producer.Input() <- record
	}
}

// transact does what a producer asks its coordinator. Its status says what may follow an error.
func transact(one request) {
	var err error
	switch {
	case one.Op == "init":
		err = produce()
	case producer == nil:
		err = sarama.ErrTransactionNotReady
	case one.Op == "begin":
		err = producer.BeginTxn()
	case one.Op == "offsets": // sent with the commit
		var places []*sarama.PartitionOffsetMetadata
		for partition, offset := range one.Offsets {
			places = append(places, &sarama.PartitionOffsetMetadata{Partition: partition, Offset: offset})
		}
		topics := map[string][]*sarama.PartitionOffsetMetadata{one.Topic: places}
		err = producer.AddOffsetsToTxn(topics, one.Member)
	case one.Op == "commit":
		err = end(producer.CommitTxn)
	default:
		err = end(producer.AbortTxn)
	}
	said := result(one.Id, err)
	if err != nil && one.Op == "init" {
		said.Again = said.Code < 0 || errors.Is(err, sarama.ErrConcurrentTransactions)
	} else if err != nil && producer != nil {
		status := producer.TxnStatus()
		said.Fatal = status&sarama.ProducerTxnFlagFatalError != 0
		said.Again = one.Op != "begin" && status&sarama.ProducerTxnFlagInError == 0
	}
	write(said)
}

// end ends a transaction. In its fatal state sarama still sends each batch Retry.Max times, and
// CommitTxn and AbortTxn wait for that.
func end(by func() error) error {
	done := make(chan error, 1)
	go func() { done <- by() }()
	for {
		select {
		case err := <-done:
			return err
		case <-time.After(100 * time.Millisecond):
			if producer.TxnStatus()&sarama.ProducerTxnFlagFatalError != 0 {
				return errors.New("its transaction is in a fatal state")
			}
		}
	}
}

// follow reads: at a position that is not in the log sarama stops, and is asked again.
func (r *reader) follow(before *reader) {
	defer close(r.done)
	if before != nil {
		<-before.done
	}
	for r.running.Err() == nil {
		reading, err := consumer.ConsumePartition(r.topic, r.partition, r.position)
		if err != nil {
			log.Print(err)
			if errors.Is(err, sarama.ErrOffsetOutOfRange) {
				r.give(found{by: r, offset: r.position})
			}
			time.Sleep(100 * time.Millisecond)
			continue
		}
		context.AfterFunc(r.running, reading.AsyncClose)
		for one := range reading.Messages() {
			r.give(found{by: r, record: one})
			r.position = one.Offset + 1
		}
	}
}

func (r *reader) give(one found) {
	select {
	case <-r.running.Done():
	case arrived <- one:
	}
}

func seek(topic string, offsets map[int32]int64) {
	for partition, offset := range offsets {
		before := readers[partition]
		if before != nil {
			before.stop()
		}
		next := &reader{topic: topic, partition: partition, position: offset}
		next.running, next.stop = context.WithCancel(context.Background())
		next.done = make(chan struct{})
		readers[partition] = next
		go next.follow(before)
	}
}

// join reads as a member of the group until it is closed.
func (m *member) join(topic string) {
	for {
		err := m.group.Consume(context.Background(), []string{topic}, m)
		if errors.Is(err, sarama.ErrClosedConsumerGroup) {
			return
		} else if err != nil {
			log.Print(err)
			time.Sleep(100 * time.Millisecond)
		}
	}
}

func (m *member) Setup(session sarama.ConsumerGroupSession) error {
	m.asks.Lock()
	m.session, m.stored, m.revoked = session, nil, false
	m.asks.Unlock()
	m.tell("assigned", session)
	return nil
}

func (m *member) Cleanup(session sarama.ConsumerGroupSession) error {
	m.asks.Lock()
	m.revoked = true
	m.asks.Unlock()
	m.tell("revoked", session)
	m.asks.Lock()
	m.session = nil
	m.asks.Unlock()
	return nil
}

func (m *member) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case <-session.Context().Done():
			return nil
		case one, more := <-claim.Messages():
			if !more {
				return nil
			}
			select {
			case <-session.Context().Done():
				return nil
			case arrived <- found{session: session, record: one}:
			}
		}
	}
}

// tell says what has happened to all of its partitions, and waits until that is handled.
func (m *member) tell(event string, session sarama.ConsumerGroupSession) {
	partitions := []int32{}
	for _, numbers := range session.Claims() {
		partitions = append(partitions, numbers...)
	}
	m.events++
	write(answer{Id: m.events, Event: event, Partitions: partitions, Generation: session.GenerationID()})
	for number := range m.handled {
		if number == m.events {
			return
		}
	}
}

// place says where the partitions of a new assignment begin, if that is not where sarama begins.
func (m *member) place(topic string, offsets map[int32]int64) error {
	m.asks.Lock()
	defer m.asks.Unlock()
	if m.session == nil || m.revoked {
		return errors.New("its partitions are revoked")
	}
	for partition, offset := range offsets {
		stored, there := m.stored[partition]
		if !there {
			stored, _ = client.GetOffset(topic, partition, sarama.OffsetOldest)
		}
		if offset != stored {
			m.mark(topic, partition, offset)
		}
	}
	return nil
}

func (m *member) mark(topic string, partition int32, offset int64) {
	m.session.ResetOffset(topic, partition, offset, "") // only back
	m.session.MarkOffset(topic, partition, offset, "")  // only on
}

// commit asks for the group's offsets, too, as sarama does not tell how its request ended.
func (m *member) commit(topic string, offsets map[int32]int64) error {
	partitions := []int32{}
	m.asks.Lock()
	if m.session == nil {
		m.asks.Unlock()
		return sarama.ErrUnknownMemberId
	}
	for partition, offset := range offsets {
		partitions = append(partitions, partition)
		m.mark(topic, partition, offset)
	}
	m.session.Commit()
	m.asks.Unlock()
	there, err := m.committed(topic, partitions)
	select {
	case told := <-m.group.Errors():
		return told
	default:
	}
	for partition, offset := range offsets {
		if err == nil && there[partition] != offset {
			err = errors.New("the group's offset is another one")
		}
	}
	return err
}

func (m *member) committed(topic string, partitions []int32) (map[int32]int64, error) {
	coordinator, err := client.Coordinator(m.name)
	if err != nil {
		return nil, err
	}
	ask := sarama.NewOffsetFetchRequest(sarama.V2_5_0_0, m.name, map[string][]int32{topic: partitions})
	ask.RequireStable = true
	got, err := coordinator.FetchOffset(ask)
	if err != nil {
		coordinator.Close()
		client.RefreshCoordinator(m.name)
		return nil, err
	}
	if err := got.GroupError(); err != sarama.ErrNoError {
		client.RefreshCoordinator(m.name)
		return nil, err
	}
	offsets := map[int32]int64{}
	for _, partition := range partitions {
		block := got.GetBlock(topic, partition)
		if block == nil {
			return nil, sarama.ErrIncompleteResponse
		} else if block.Err != sarama.ErrNoError {
			return nil, block.Err
		} else if block.Offset >= 0 {
			offsets[partition] = block.Offset
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
		go m.join(one.Topic)
	case "seek":
		err = m.place(one.Topic, one.Offsets)
	case "commit":
		err = m.commit(one.Topic, one.Offsets)
	case "committed":
		said.Offsets, err = m.committed(one.Topic, one.Partitions)
		m.asks.Lock()
		m.stored = said.Offsets
		m.asks.Unlock()
	case "handled":
		m.handled <- one.Event
	case "close":
		err = m.group.Close()
	}
	if err != nil {
		said = result(one.Id, err)
	}
	write(said)
}

func poll(one request) answer {
	said := answer{Id: one.Id, OutOfRange: map[int32]int64{}}
	late := time.After(time.Duration(one.WaitMs) * time.Millisecond)
	for len(said.Records) < one.Max {
		select {
		case next := <-arrived:
			if next.by == nil && next.session.Context().Err() != nil {
				continue // from before a rebalance
			} else if next.by != nil && next.by != readers[next.by.partition] {
				continue // from before a seek
			} else if r := next.record; r != nil {
				said.Records = append(said.Records, record{r.Partition, r.Offset, string(r.Value)})
			} else {
				said.OutOfRange[next.by.partition] = next.offset
			}
			late = time.After(time.Millisecond)
		case <-late:
			return said
		}
	}
	return said
}

// bounds asks itself, as sarama's GetOffset does not tell brokers the isolation level.
func bounds(one request) answer {
	var places [2]int64
	for index, time := range []int64{sarama.OffsetOldest, sarama.OffsetNewest} {
		leader, err := client.Leader(one.Topic, one.Partition)
		if err != nil {
			return result(one.Id, err)
		}
		ask := sarama.NewOffsetRequest(client.Config().Version)
		ask.IsolationLevel = client.Config().Consumer.IsolationLevel
		ask.AddBlock(one.Topic, one.Partition, time, 1)
		got, err := leader.GetAvailableOffsets(ask)
		if err != nil {
			leader.Close()
			return result(one.Id, err)
		}
		block := got.GetBlock(one.Topic, one.Partition)
		if block == nil {
			return result(one.Id, sarama.ErrIncompleteResponse)
		} else if block.Err != sarama.ErrNoError {
			return result(one.Id, block.Err)
		}
		places[index] = block.Offset
	}
	return answer{Id: one.Id, First: places[0], End: places[1]}
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
		said := result(one.Id, open(one.Role, one.Config))
		said.Library = "sarama " + version()
		write(said)
	case "send":
		send(one)
	case "reach":
		go func() { write(result(one.Id, client.RefreshMetadata(one.Topic))) }()
	case "init", "begin", "offsets", "commit", "abort":
		work <- func() { transact(one) }
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
	log.SetFlags(log.Ltime | log.Lmicroseconds)
	sarama.Logger = log.Default()
	go func() {
		for next := range work {
			next()
		}
	}()
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var one request
		if json.Unmarshal(lines.Bytes(), &one) == nil {
			serve(one)
		}
	}
}
