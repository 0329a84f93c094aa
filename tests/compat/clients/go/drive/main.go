// What lines.py says, for clients that are written in Go: `drive CLIENT OPTIONS`. Orders come on stdin, facts go to stdout, each a line of JSON.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"
)

const wait = 20 * time.Second

type place [2]int64 // partition and offset

type options struct {
	Bootstrap, Topic, Group, Name, Strategy string
	Instance                                *string
	Session_ms, Heartbeat_ms                int64
}

// A client that does what it is told.
type client interface {
	produce(partitions []int32) ([]place, error)
	join() error
	commit(places []place) error
	leave() error
}

// What a member owns and how far it has read there; the test is told of every change.
type share struct {
	sync.Mutex
	positions map[int32]int64
}

func say(fact string, value any) {
	line, err := json.Marshal(map[string]any{fact: value})
	must(err)
	os.Stdout.Write(append(line, '\n'))
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func (s *share) change(gained, lost []int32) {
	if len(gained)+len(lost) == 0 {
		return
	}
	s.Lock()
	defer s.Unlock()
	for _, partition := range lost {
		delete(s.positions, partition)
	}
	for _, partition := range gained {
		if _, is_there := s.positions[partition]; !is_there {
			s.positions[partition] = -1
		}
	}
	owned := []int32{}
	for partition := range s.positions {
		owned = append(owned, partition)
	}
	slices.Sort(owned)
	say("owned", owned)
}

func (s *share) read(partition int32, offset int64) {
	s.Lock()
	defer s.Unlock()
	if _, is_there := s.positions[partition]; is_there {
		s.positions[partition] = offset + 1
	}
	say("read", place{int64(partition), offset})
}

func (s *share) readUpTo() []place {
	s.Lock()
	defer s.Unlock()
	places := []place{}
	for partition, next := range s.positions {
		if next >= 0 {
			places = append(places, place{int64(partition), next})
		}
	}
	slices.SortFunc(places, func(one, other place) int { return int(one[0] - other[0]) })
	return places
}

func main() {
	var given options
	must(json.Unmarshal([]byte(os.Args[2]), &given))
	owned := &share{positions: map[int32]int64{}}
	made := map[string]func(options, *share) client{"franz-go": newFranz, "kafka-go": newKafkaGo, "sarama": newSarama}
	driven := made[os.Args[1]](given, owned)
	orders := bufio.NewScanner(os.Stdin)
	for orders.Scan() {
		var order struct {
			Do         string
			Partitions []int32
		}
		must(json.Unmarshal(orders.Bytes(), &order))
		switch order.Do {
		case "produce":
			places, err := driven.produce(order.Partitions)
			must(err)
			say("produced", places)
		case "join":
			must(driven.join())
		case "commit":
			places := owned.readUpTo()
			must(driven.commit(places))
			say("committed", places)
		case "leave":
			must(driven.leave())
			say("left", true)
			os.Exit(0)
		}
	}
	os.Exit(1) // nobody is left to give orders
}
