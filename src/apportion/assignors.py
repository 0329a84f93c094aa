"""Assignors for classic groups, and the interface of your own on either side.

`apportion.Consumer(..., group_protocol="classic", partition_assignment_strategy=...)` takes their
names or objects; a broker takes your own in `group.consumer.assignors`.
"""

from apportion.assign.by_name import Given, Subscription, TopicParts, TopicShape, by_topic
from apportion.member.assignors.builtin import CooperativeSticky, Range, RoundRobin, Sticky
from apportion.member.assignors.checks import Overlap, validate_subscription
from apportion.member.assignors.interface import Assignor, FollowUp, MemberFailure, Rebalance

__all__ = [
    "Assignor",
    "CooperativeSticky",
    "FollowUp",
    "Given",
    "MemberFailure",
    "Overlap",
    "Range",
    "Rebalance",
    "RoundRobin",
    "Sticky",
    "Subscription",
    "TopicParts",
    "TopicShape",
    "by_topic",
    "validate_subscription",
]
