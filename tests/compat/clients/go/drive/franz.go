package main

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

type franz struct {
	options
	*share
	client *kgo.Client
}

func newFranz(given options, owned *share) client { return &franz{given, owned, nil} }

func (f *franz) produce(partitions []int32) ([]place, error) {
	producer, err := kgo.NewClient(kgo.SeedBrokers(f.Bootstrap), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		return nil, err
	}
	defer producer.Close()
	records := []*kgo.Record{}
	for _, partition := range partitions {
		records = append(records, &kgo.Record{Topic: f.Topic, Partition: partition, Value: []byte("x")})
	}
	results := producer.ProduceSync(context.Background(), records...)
	places := []place{}
	for _, result := range results {
		places = append(places, place{int64(result.Record.Partition), result.Record.Offset})
	}
	return places, results.FirstErr()
}

func (f *franz) join() error {
	balancers := map[string]kgo.GroupBalancer{
		"range": kgo.RangeBalancer(), "roundrobin": kgo.RoundRobinBalancer(),
		"sticky": kgo.StickyBalancer(), "cooperative-sticky": kgo.CooperativeStickyBalancer(),
	}
	lost := func(_ context.Context, _ *kgo.Client, of map[string][]int32) { f.change(nil, of[f.Topic]) }
	given := []kgo.Opt{
		kgo.SeedBrokers(f.Bootstrap), kgo.ClientID(f.Name), kgo.ConsumerGroup(f.Group), kgo.ConsumeTopics(f.Topic),
		kgo.DisableAutoCommit(), kgo.FetchMaxWait(200 * time.Millisecond),
		kgo.SessionTimeout(time.Duration(f.Session_ms) * time.Millisecond),
		kgo.HeartbeatInterval(time.Duration(f.Heartbeat_ms) * time.Millisecond),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, of map[string][]int32) { f.change(of[f.Topic], nil) }),
		kgo.OnPartitionsRevoked(lost), kgo.OnPartitionsLost(lost),
	}
	if balancer, is_classic := balancers[f.Strategy]; is_classic {
		given = append(given, kgo.Balancers(balancer))
	} else {
		given = append(given, kgo.ServerSideBalancer())
	}
	if f.Instance != nil {
		given = append(given, kgo.InstanceID(*f.Instance))
	}
	client, err := kgo.NewClient(given...)
	if err != nil {
		return err
	}
	f.client = client
	go func() {
		for {
			fetched := client.PollFetches(context.Background())
			if fetched.IsClientClosed() {
				return
			}
			fetched.EachRecord(func(record *kgo.Record) { f.read(record.Partition, record.Offset) })
		}
	}()
	return nil
}

func (f *franz) commit(places []place) error {
	offsets := map[int32]kgo.EpochOffset{}
	for _, each := range places {
		offsets[int32(each[0])] = kgo.EpochOffset{Epoch: -1, Offset: each[1]}
	}
	var failed error
	answered := func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, response *kmsg.OffsetCommitResponse, err error) {
		failed = err
		if err != nil {
			return
		}
		for _, topic := range response.Topics {
			for _, partition := range topic.Partitions {
				if err := kerr.ErrorForCode(partition.ErrorCode); err != nil {
					failed = err
				}
			}
		}
	}
	f.client.CommitOffsetsSync(context.Background(), map[string]map[int32]kgo.EpochOffset{f.Topic: offsets}, answered)
	return failed
}

func (f *franz) leave() error {
	if f.client != nil {
		f.client.Close()
	}
	return nil
}
