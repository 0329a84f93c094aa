"""The requests that many clients send at a time: one step answers those that arrive together.

Produce is not among them: a refused one with acks=0 ends its connection, so it is answered before
the next request begins. Nor are the requests that clients send before they log in, of which few may
wait.
"""

from apportion.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from apportion.wire.messages.fetch import FetchRequest
from apportion.wire.messages.heartbeat import HeartbeatRequest
from apportion.wire.messages.join_group import JoinGroupRequest
from apportion.wire.messages.offset_commit import OffsetCommitRequest
from apportion.wire.messages.offset_fetch import OffsetFetchRequest
from apportion.wire.messages.sync_group import SyncGroupRequest

STEPPED_TOGETHER = frozenset(
    {
        ConsumerGroupHeartbeatRequest,
        FetchRequest,
        HeartbeatRequest,
        JoinGroupRequest,
        OffsetCommitRequest,
        OffsetFetchRequest,
        SyncGroupRequest,
    }
)
"""The classes of these requests."""
