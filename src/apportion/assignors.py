"""Assignors that members run, and the interface of your own on either side.

`apportion.Consumer` takes their names or objects: in `group_local_assignors`, and for a classic
group in `partition_assignment_strategy`. A broker takes your own in `group.consumer.assignors`.
"""

from apportion.assign.by_name import Given, Subscription, TopicParts, TopicShape, by_topic
from apportion.errors import Unanswerable
from apportion.member.assignors.builtin import CooperativeSticky, Range, RoundRobin, Sticky
from apportion.member.assignors.checks import Overlap, validate_subscription
from apportion.member.assignors.interface import (
    Assignor,
    FollowUp,
    MeasuringAssignor,
    MemberFailure,
    Rebalance,
    VersionedAssignor,
)
from apportion.member.assignors.weighted import BytesWeighted, LagWeighted
from apportion.streams.queries import (
    FetchCommittedOffsets,
    ListEndOffsets,
    ListStartOffsets,
)

__all__ = [
    "Assignor",
    "BytesWeighted",
    "CooperativeSticky",
    "FetchCommittedOffsets",
    "FollowUp",
    "Given",
    "LagWeighted",
    "ListEndOffsets",
    "ListStartOffsets",
    "MeasuringAssignor",
    "MemberFailure",
    "Overlap",
    "Range",
    "Rebalance",
    "RoundRobin",
    "Sticky",
    "Subscription",
    "TopicParts",
    "TopicShape",
    "Unanswerable",
    "VersionedAssignor",
    "by_topic",
    "validate_subscription",
]
