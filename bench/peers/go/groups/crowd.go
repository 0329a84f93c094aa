package main

import (
	"bufio"
	"container/heap"
	"encoding/binary"
	"io"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	clientID     = "peers"
	retryAfter   = 100 * time.Millisecond
	responseSkip = 9 // length, correlation id, tags of the header
)

// A response that came, with the time at which it did.
type arrival struct {
	correlation int32
	body        []byte
	at          time.Time
	err         error
}

type outstanding struct {
	member *member
	sent   time.Time
}

// A crowd is all members of all groups. One goroutine has all of it; others only read sockets.
// limit: how long joining, leaving and any one response may take.
type crowd struct {
	topic       string
	partitions  int
	groups      []*group
	members     []*member
	connections []net.Conn
	arrivals    chan arrival
	due         dueMembers
	waiting     map[int32]outstanding
	correlation int32
	formatter   *kmsg.RequestFormatter
	unsettled   int
	staying     int
	limit       time.Duration
}

func newCrowd(topic string, partitions int, prefix string, groups, each int) *crowd {
	all := &crowd{
		topic:      topic,
		partitions: partitions,
		unsettled:  groups,
		staying:    groups * each,
		arrivals:   make(chan arrival, 1024),
		waiting:    map[int32]outstanding{},
		formatter:  kmsg.NewRequestFormatter(kmsg.FormatterClientID(clientID)),
	}
	for at := range groups {
		all.groups = append(all.groups, &group{name: name(prefix, at)})
	}
	// Members of a group do not join one behind the other.
	for at := range groups * each {
		in := all.groups[at%groups]
		who := &member{group: in, id: name(prefix+"-member", at)}
		in.members = append(in.members, who)
		all.members = append(all.members, who)
	}
	return all
}

func (all *crowd) connect(address string, count int) {
	for range count {
		connection, err := net.DialTimeout("tcp", address, all.limit)
		must(err, "connect")
		all.connections = append(all.connections, connection)
		go read(connection, all.arrivals)
	}
	for at, who := range all.members {
		who.connection = all.connections[at%count]
	}
}

func read(connection net.Conn, arrivals chan<- arrival) {
	buffered := bufio.NewReaderSize(connection, 64*1024)
	for {
		head := make([]byte, responseSkip)
		if _, err := io.ReadFull(buffered, head); err != nil {
			arrivals <- arrival{err: err}
			return
		}
		body := make([]byte, int(binary.BigEndian.Uint32(head))+4-responseSkip)
		_, err := io.ReadFull(buffered, body)
		correlation := int32(binary.BigEndian.Uint32(head[4:]))
		arrivals <- arrival{correlation, body, time.Now(), err}
	}
}

func (all *crowd) send(who *member) {
	all.correlation++
	request := who.heartbeat(all.topic)
	frame := all.formatter.AppendRequest(nil, request, all.correlation)
	now := time.Now()
	all.waiting[all.correlation] = outstanding{who, now}
	must(who.connection.SetWriteDeadline(now.Add(all.limit)), "write")
	_, err := who.connection.Write(frame)
	must(err, "write")
}

// step sends what is due, waits for a response or for the next that is due, and takes it. It returns
// how long the response took; 0 if none came.
func (all *crowd) step(end time.Time) time.Duration {
	now := time.Now()
	for len(all.due) > 0 && !all.due[0].dueAt.After(now) {
		all.send(heap.Pop(&all.due).(*member))
	}
	wake := end
	if len(all.due) > 0 && all.due[0].dueAt.Before(end) {
		wake = all.due[0].dueAt
	}
	timer := time.NewTimer(max(0, time.Until(wake)))
	defer timer.Stop()
	select {
	case came := <-all.arrivals:
		return all.take(came)
	case <-timer.C:
		return 0
	}
}

func (all *crowd) take(came arrival) time.Duration {
	must(came.err, "read")
	asked, isKnown := all.waiting[came.correlation]
	if !isKnown {
		fail("a response with the correlation id %d, which no request has", came.correlation)
	}
	delete(all.waiting, came.correlation)
	who := asked.member
	response := kmsg.NewPtrConsumerGroupHeartbeatResponse()
	response.Version = heartbeatVersion
	must(response.ReadFrom(came.body), "a response")
	wasSettled := who.group.isSettled
	after := who.take(response)
	if who.hasLeft {
		all.staying--
		return came.at.Sub(asked.sent)
	}
	if !wasSettled && who.group.settled(all.partitions) {
		all.unsettled--
	}
	who.dueAt = came.at.Add(after)
	heap.Push(&all.due, who)
	return came.at.Sub(asked.sent)
}

func (all *crowd) join(within time.Duration) (time.Duration, []time.Duration) {
	begin := time.Now()
	for at, who := range all.members {
		who.dueAt = begin.Add(within * time.Duration(at) / time.Duration(len(all.members)))
		heap.Push(&all.due, who)
	}
	var times []time.Duration
	for all.unsettled > 0 {
		if took := all.step(begin.Add(all.limit)); took > 0 {
			times = append(times, took)
		}
		if time.Since(begin) > all.limit {
			fail("%d groups did not settle within %v", all.unsettled, all.limit)
		}
	}
	return time.Since(begin), times
}

// finish waits for the outstanding responses; each member has one request outstanding at most.
func (all *crowd) finish() {
	limit := time.After(all.limit)
	for len(all.waiting) > 0 {
		select {
		case came := <-all.arrivals:
			all.take(came)
		case <-limit:
			fail("%d requests had no response within %v", len(all.waiting), all.limit)
		}
	}
}

// spread makes the next requests of all members due evenly within their longest interval, and waits
// for it to pass.
func (all *crowd) spread() time.Duration {
	all.finish()
	begin := time.Now()
	var interval time.Duration
	for _, who := range all.members {
		interval = max(interval, who.dueAt.Sub(begin))
	}
	for at, who := range all.members {
		who.dueAt = begin.Add(interval * time.Duration(at) / time.Duration(len(all.members)))
	}
	heap.Init(&all.due)
	all.rest(interval)
	return interval
}

func (all *crowd) rest(duration time.Duration) []time.Duration {
	end := time.Now().Add(duration)
	var times []time.Duration
	for time.Now().Before(end) {
		if took := all.step(end); took > 0 {
			times = append(times, took)
		}
	}
	return times
}

func (all *crowd) leave() int {
	all.finish()
	begin := time.Now()
	for _, who := range all.members {
		who.epoch, who.dueAt = left, begin
	}
	heap.Init(&all.due)
	for all.staying > 0 {
		all.step(begin.Add(all.limit))
		if time.Since(begin) > all.limit {
			fail("%d members could not leave within %v", all.staying, all.limit)
		}
	}
	return len(all.members)
}

// dueMembers is a heap of members by the time of their next request.
type dueMembers []*member

func (due dueMembers) Len() int           { return len(due) }
func (due dueMembers) Less(i, j int) bool { return due[i].dueAt.Before(due[j].dueAt) }
func (due dueMembers) Swap(i, j int)      { due[i], due[j] = due[j], due[i] }
func (due *dueMembers) Push(who any)      { *due = append(*due, who.(*member)) }
func (due *dueMembers) Pop() any {
	last := len(*due) - 1
	who := (*due)[last]
	*due = (*due)[:last]
	return who
}
