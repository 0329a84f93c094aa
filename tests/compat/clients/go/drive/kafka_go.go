package main

import (
	"context"
	"errors"
	"time"

	"github.com/segmentio/kafka-go"
)

type kafkaGo struct {
	options
	*share
	group      *kafka.ConsumerGroup
	generation *kafka.Generation
}

func newKafkaGo(given options, owned *share) client { return &kafkaGo{given, owned, nil, nil} }

func (k *kafkaGo) produce(partitions []int32) ([]place, error) {
	counts, places := map[int32]int{}, []place{}
	for _, partition := range partitions {
		counts[partition]++
	}
	for partition, count := range counts {
		leader, err := kafka.DialLeader(context.Background(), "tcp", k.Bootstrap, k.Topic, int(partition))
		if err != nil {
			return nil, err
		}
		messages := make([]kafka.Message, count)
		for number := range messages {
			messages[number].Value = []byte("x")
		}
		_, _, first, _, err := leader.WriteCompressedMessagesAt(nil, messages...)
		leader.Close()
		if err != nil {
			return nil, err
		}
		for number := range messages {
			places = append(places, place{int64(partition), first + int64(number)})
		}
	}
	return places, nil
}

func (k *kafkaGo) join() error {
	balancers := map[string]kafka.GroupBalancer{"range": kafka.RangeGroupBalancer{}, "roundrobin": kafka.RoundRobinGroupBalancer{}}
	group, err := kafka.NewConsumerGroup(kafka.ConsumerGroupConfig{
		ID: k.Group, Brokers: []string{k.Bootstrap}, Topics: []string{k.Topic}, StartOffset: kafka.FirstOffset,
		Dialer:            &kafka.Dialer{ClientID: k.Name, Timeout: wait},
		GroupBalancers:    []kafka.GroupBalancer{balancers[k.Strategy]},
		SessionTimeout:    time.Duration(k.Session_ms) * time.Millisecond,
		HeartbeatInterval: time.Duration(k.Heartbeat_ms) * time.Millisecond,
		RebalanceTimeout:  wait,
	})
	if err != nil {
		return err
	}
	k.group = group
	go k.run()
	return nil
}

func (k *kafkaGo) run() {
	for {
		generation, err := k.group.Next(context.Background())
		if errors.Is(err, kafka.ErrGroupClosed) {
			return
		}
		if err != nil { // the broker is away, or a rebalance failed: it tries again
			continue
		}
		k.Lock()
		k.generation = generation
		k.Unlock()
		owned := []int32{}
		for _, each := range generation.Assignments[k.Topic] {
			owned = append(owned, int32(each.ID))
			generation.Start(func(ctx context.Context) { k.consume(ctx, each) })
		}
		generation.Start(func(ctx context.Context) {
			k.change(owned, nil)
			<-ctx.Done()
			k.change(nil, owned)
		})
	}
}

func (k *kafkaGo) consume(ctx context.Context, from kafka.PartitionAssignment) {
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers: []string{k.Bootstrap}, Topic: k.Topic, Partition: from.ID, MaxWait: 200 * time.Millisecond,
	})
	defer reader.Close()
	must(reader.SetOffset(from.Offset))
	for {
		message, err := reader.ReadMessage(ctx)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			k.read(int32(message.Partition), message.Offset)
		}
	}
}

func (k *kafkaGo) commit(places []place) error {
	offsets := map[int]int64{}
	for _, each := range places {
		offsets[int(each[0])] = each[1]
	}
	k.Lock()
	generation := k.generation
	k.Unlock()
	return generation.CommitOffsets(map[string]map[int]int64{k.Topic: offsets})
}

func (k *kafkaGo) leave() error {
	if k.group == nil {
		return nil
	}
	return k.group.Close()
}
