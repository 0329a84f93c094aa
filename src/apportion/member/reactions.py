"""What a client does about each error code, as one table: API by error code.

An error that no row names is raised to the caller, and ends a membership where a heartbeat gets it.
The table says nothing of time: how long and how often to retry is the caller's decision.
"""

from enum import Enum

from apportion.errors import Code


class Reaction(Enum):
    """What a client does about a response."""

    ACCEPT = "the answer stands"
    RETRY = "ask the same node again, after a pause"
    SEEK = "find the group's coordinator again, then ask it"
    REFRESH = "learn the cluster's metadata again, then ask the new leader"
    REJOIN = "the membership is lost: join again at epoch 0 with the same member id"
    RENEW = "the membership is lost, and the member id with it: join again as somebody new"
    FOLLOW = "a new generation is being made: join it, and keep what is held"
    TAKE_ID = "ask again with the member id of the answer"
    AGAIN = "ask again with the newest member epoch, if one has arrived"
    WAIT = "time may mend it: ask again, for a bounded time"
    RAISE = "tell the caller"


COORDINATOR = {
    Code.NONE: Reaction.ACCEPT,
    Code.COORDINATOR_LOAD_IN_PROGRESS: Reaction.RETRY,
    Code.COORDINATOR_NOT_AVAILABLE: Reaction.SEEK,
    Code.NOT_COORDINATOR: Reaction.SEEK,
}

LEADER = {
    Code.NONE: Reaction.ACCEPT,
    Code.NOT_LEADER_OR_FOLLOWER: Reaction.REFRESH,
    Code.LEADER_NOT_AVAILABLE: Reaction.REFRESH,
    Code.FENCED_LEADER_EPOCH: Reaction.REFRESH,
    Code.UNKNOWN_LEADER_EPOCH: Reaction.REFRESH,
    Code.REPLICA_NOT_AVAILABLE: Reaction.REFRESH,
    Code.KAFKA_STORAGE_ERROR: Reaction.REFRESH,
    Code.OFFSET_NOT_AVAILABLE: Reaction.RETRY,
    Code.UNKNOWN_TOPIC_OR_PARTITION: Reaction.REFRESH,
    Code.UNKNOWN_TOPIC_ID: Reaction.REFRESH,
    Code.INCONSISTENT_TOPIC_ID: Reaction.REFRESH,
    Code.REQUEST_TIMED_OUT: Reaction.RETRY,
    Code.NOT_ENOUGH_REPLICAS: Reaction.RETRY,
}

CLASSIC = {  # of a member that has a generation
    **COORDINATOR,
    Code.REBALANCE_IN_PROGRESS: Reaction.FOLLOW,
    Code.ILLEGAL_GENERATION: Reaction.REJOIN,
    Code.UNKNOWN_MEMBER_ID: Reaction.RENEW,
}

REACTIONS: dict[str, dict[Code, Reaction]] = {
    "ConsumerGroupHeartbeat": {
        **COORDINATOR,
        Code.FENCED_MEMBER_EPOCH: Reaction.REJOIN,
        Code.UNKNOWN_MEMBER_ID: Reaction.REJOIN,
        Code.GROUP_ID_NOT_FOUND: Reaction.REJOIN,
        Code.UNRELEASED_INSTANCE_ID: Reaction.WAIT,
        Code.UNKNOWN_SERVER_ERROR: Reaction.WAIT,
        Code.TOPIC_AUTHORIZATION_FAILED: Reaction.RETRY,
    },
    "FindCoordinator": {**COORDINATOR, Code.COORDINATOR_NOT_AVAILABLE: Reaction.RETRY},
    "JoinGroup": {
        **COORDINATOR,
        Code.MEMBER_ID_REQUIRED: Reaction.TAKE_ID,
        Code.UNKNOWN_MEMBER_ID: Reaction.RENEW,
        Code.REBALANCE_IN_PROGRESS: Reaction.FOLLOW,
        Code.UNKNOWN_SERVER_ERROR: Reaction.WAIT,
    },
    "SyncGroup": {**CLASSIC, Code.UNKNOWN_SERVER_ERROR: Reaction.WAIT},
    "Heartbeat": CLASSIC,
    "LeaveGroup": COORDINATOR,
    "OffsetCommit": {
        **COORDINATOR,
        Code.REQUEST_TIMED_OUT: Reaction.RETRY,
        Code.UNKNOWN_TOPIC_OR_PARTITION: Reaction.RETRY,
        Code.UNKNOWN_TOPIC_ID: Reaction.RETRY,
        Code.STALE_MEMBER_EPOCH: Reaction.AGAIN,
        Code.ILLEGAL_GENERATION: Reaction.AGAIN,
        Code.REBALANCE_IN_PROGRESS: Reaction.RETRY,
    },
    "OffsetFetch": {
        **COORDINATOR,
        Code.UNSTABLE_OFFSET_COMMIT: Reaction.RETRY,
        Code.STALE_MEMBER_EPOCH: Reaction.AGAIN,
        Code.ILLEGAL_GENERATION: Reaction.AGAIN,
    },
    "Metadata": {Code.NONE: Reaction.ACCEPT, Code.LEADER_NOT_AVAILABLE: Reaction.RETRY},
    "ListOffsets": LEADER,
    "Fetch": LEADER,
    "Produce": LEADER,
}


def reaction(api: str, code: int) -> Reaction:
    """Return what a client does when `api` (Kafka's name, without Request) is answered with `code`."""
    rows = REACTIONS.get(api, COORDINATOR)
    return rows.get(Code.of(code), Reaction.RAISE)
