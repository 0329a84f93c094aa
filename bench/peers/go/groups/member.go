package main

import (
	"fmt"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	heartbeatVersion   = 1 // members make their own ids
	rebalanceTimeoutMs = 300_000
	left               = -1 // the epoch of a member that leaves
)

func name(prefix string, at int) string { return fmt.Sprintf("%s-%05d", prefix, at) }

type group struct {
	name      string
	members   []*member
	isSettled bool
}

// settled says whether the members have all partitions evenly, in one epoch, and have said so.
func (in *group) settled(partitions int) bool {
	first := in.members[0]
	owned, least, most := 0, first.owned, first.owned
	for _, who := range in.members {
		if who.epoch == 0 || who.epoch != first.epoch || who.hasNews {
			return false
		}
		owned += who.owned
		least, most = min(least, who.owned), max(most, who.owned)
	}
	in.isSettled = owned == partitions && most-least <= 1
	return in.isSettled
}

// A member as it knows itself. hasNews: the last response had an assignment, which
// the next request acknowledges. hasLeft: the coordinator has said that it let the member go.
type member struct {
	group      *group
	id         string
	connection net.Conn
	epoch      int32
	assigned   []kmsg.ConsumerGroupHeartbeatResponseAssignmentTopic
	owned      int
	hasNews    bool
	hasLeft    bool
	dueAt      time.Time
}

func (who *member) heartbeat(topic string) kmsg.Request {
	request := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	request.Version = heartbeatVersion
	request.Group = who.group.name
	request.MemberID = who.id
	request.MemberEpoch = who.epoch
	request.RebalanceTimeoutMillis = -1
	if who.epoch == 0 {
		request.RebalanceTimeoutMillis = rebalanceTimeoutMs
		request.SubscribedTopicNames = []string{topic}
		request.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	}
	if who.hasNews {
		request.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
		for _, each := range who.assigned {
			owned := kmsg.NewConsumerGroupHeartbeatRequestTopic()
			owned.TopicID, owned.Partitions = each.TopicID, each.Partitions
			request.Topics = append(request.Topics, owned)
		}
	}
	return request
}

// take notes what the response says, and returns after how long the member's next request is due.
func (who *member) take(response *kmsg.ConsumerGroupHeartbeatResponse) time.Duration {
	switch response.ErrorCode {
	case 0:
	case 14, 15, 16: // the coordinator is loading, not available, or has just moved here
		return retryAfter
	default:
		reason := ""
		if response.ErrorMessage != nil {
			reason = *response.ErrorMessage
		}
		fail("a heartbeat of %s had error %d: %s", who.id, response.ErrorCode, reason)
	}
	if who.epoch == left {
		who.hasLeft = true
		return 0
	}
	who.epoch = response.MemberEpoch
	who.hasNews = response.Assignment != nil
	if who.hasNews {
		who.assigned, who.owned = response.Assignment.Topics, 0
		for _, each := range who.assigned {
			who.owned += len(each.Partitions)
		}
		return 0 // it gives up at once what it has to give up, and says what it has
	}
	return time.Duration(response.HeartbeatIntervalMillis) * time.Millisecond
}
