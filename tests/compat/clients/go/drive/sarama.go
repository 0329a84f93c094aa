package main

import (
	"context"
	"errors"
	"log"
	"os"
	"time"

	"github.com/IBM/sarama"
)

type saramaMember struct {
	options
	*share
	group   sarama.ConsumerGroup
	session sarama.ConsumerGroupSession
}

func newSarama(given options, owned *share) client {
	sarama.Logger = log.New(os.Stderr, "", log.LstdFlags)
	return &saramaMember{given, owned, nil, nil}
}

func (s *saramaMember) config() *sarama.Config {
	config := sarama.NewConfig()
	config.ClientID = s.Name
	config.Version = sarama.MaxVersion
	return config
}

func (s *saramaMember) produce(partitions []int32) ([]place, error) {
	config := s.config()
	config.Producer.Return.Successes = true
	config.Producer.Partitioner = sarama.NewManualPartitioner
	producer, err := sarama.NewSyncProducer([]string{s.Bootstrap}, config)
	if err != nil {
		return nil, err
	}
	defer producer.Close()
	messages := []*sarama.ProducerMessage{}
	for _, partition := range partitions {
		messages = append(messages, &sarama.ProducerMessage{Topic: s.Topic, Partition: partition, Value: sarama.StringEncoder("x")})
	}
	if err := producer.SendMessages(messages); err != nil {
		return nil, err
	}
	places := []place{}
	for _, message := range messages {
		places = append(places, place{int64(message.Partition), message.Offset})
	}
	return places, nil
}

func (s *saramaMember) join() error {
	strategies := map[string]sarama.BalanceStrategy{
		"range": sarama.NewBalanceStrategyRange(), "roundrobin": sarama.NewBalanceStrategyRoundRobin(),
		"sticky": sarama.NewBalanceStrategySticky(),
	}
	config := s.config()
	of := &config.Consumer
	of.Offsets.AutoCommit.Enable = false
	of.Offsets.Initial = sarama.OffsetOldest
	of.MaxWaitTime = 200 * time.Millisecond
	of.Group.Session.Timeout = time.Duration(s.Session_ms) * time.Millisecond
	of.Group.Heartbeat.Interval = time.Duration(s.Heartbeat_ms) * time.Millisecond
	of.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{strategies[s.Strategy]}
	if s.Instance != nil {
		of.Group.InstanceId = *s.Instance
	}
	group, err := sarama.NewConsumerGroup([]string{s.Bootstrap}, s.Group, config)
	if err != nil {
		return err
	}
	s.group = group
	go func() {
		for {
			err := group.Consume(context.Background(), []string{s.Topic}, s)
			if errors.Is(err, sarama.ErrClosedConsumerGroup) {
				return
			}
			if err != nil { // the broker is away: it tries again
				log.Print(err)
			}
		}
	}()
	return nil
}

func (s *saramaMember) Setup(session sarama.ConsumerGroupSession) error {
	s.Lock()
	s.session = session
	s.Unlock()
	s.change(session.Claims()[s.Topic], nil)
	return nil
}

func (s *saramaMember) Cleanup(session sarama.ConsumerGroupSession) error {
	s.change(nil, session.Claims()[s.Topic])
	return nil
}

func (s *saramaMember) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case message, is_open := <-claim.Messages():
			if !is_open {
				return nil
			}
			s.read(message.Partition, message.Offset)
		case <-session.Context().Done():
			return nil
		}
	}
}

func (s *saramaMember) commit(places []place) error {
	s.Lock()
	session := s.session
	s.Unlock()
	for _, each := range places {
		session.MarkOffset(s.Topic, int32(each[0]), each[1], "")
	}
	session.Commit()
	return nil
}

func (s *saramaMember) leave() error {
	if s.group == nil {
		return nil
	}
	return s.group.Close()
}
