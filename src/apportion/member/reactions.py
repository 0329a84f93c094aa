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
    FIND_COORDINATOR = "find the group's coordinator again, then ask it"
    REFRESH_METADATA = "learn the cluster's metadata again, then ask the new leader"
    REJOIN = "the membership is lost: join again at epoch 0 with the same member id"
    REJOIN_AS_NEW = "the membership is lost, and the member id with it: join again as somebody new"
    REJOIN_KEEPING = "a new generation is being made: join it, and keep what is held"
    RETRY_WITH_MEMBER_ID = "ask again with the member id of the answer"
    RETRY_WITH_NEW_EPOCH = "ask again with the newest member epoch, if one has arrived"
    RETRY_FOR_A_TIME = "time may mend it: ask again, for a bounded time"
    RAISE = "tell the caller"


COORDINATOR = {
    Code.NONE: Reaction.ACCEPT,
    Code.COORDINATOR_LOAD_IN_PROGRESS: Reaction.RETRY,
    Code.COORDINATOR_NOT_AVAILABLE: Reaction.FIND_COORDINATOR,
    Code.NOT_COORDINATOR: Reaction.FIND_COORDINATOR,
}

LEADER = {
    Code.NONE: Reaction.ACCEPT,
    Code.NOT_LEADER_OR_FOLLOWER: Reaction.REFRESH_METADATA,
    Code.LEADER_NOT_AVAILABLE: Reaction.REFRESH_METADATA,
    Code.FENCED_LEADER_EPOCH: Reaction.REFRESH_METADATA,
    Code.UNKNOWN_LEADER_EPOCH: Reaction.REFRESH_METADATA,
    Code.REPLICA_NOT_AVAILABLE: Reaction.REFRESH_METADATA,
    Code.KAFKA_STORAGE_ERROR: Reaction.REFRESH_METADATA,
    Code.OFFSET_NOT_AVAILABLE: Reaction.RETRY,
    Code.UNKNOWN_TOPIC_OR_PARTITION: Reaction.REFRESH_METADATA,
    Code.UNKNOWN_TOPIC_ID: Reaction.REFRESH_METADATA,
    Code.INCONSISTENT_TOPIC_ID: Reaction.REFRESH_METADATA,
    Code.REQUEST_TIMED_OUT: Reaction.RETRY,
    Code.NOT_ENOUGH_REPLICAS: Reaction.RETRY,
}

CLASSIC = {  # of a member that has a generation
    **COORDINATOR,
    Code.REBALANCE_IN_PROGRESS: Reaction.REJOIN_KEEPING,
    Code.ILLEGAL_GENERATION: Reaction.REJOIN,
    Code.UNKNOWN_MEMBER_ID: Reaction.REJOIN_AS_NEW,
}

REACTIONS: dict[str, dict[Code, Reaction]] = {
    "ConsumerGroupHeartbeat": {
        **COORDINATOR,
        Code.FENCED_MEMBER_EPOCH: Reaction.REJOIN,
        Code.UNKNOWN_MEMBER_ID: Reaction.REJOIN,
        Code.GROUP_ID_NOT_FOUND: Reaction.REJOIN,
        Code.UNRELEASED_INSTANCE_ID: Reaction.RETRY_FOR_A_TIME,
        Code.UNKNOWN_SERVER_ERROR: Reaction.RETRY_FOR_A_TIME,
        Code.TOPIC_AUTHORIZATION_FAILED: Reaction.RETRY,
    },
    "FindCoordinator": {**COORDINATOR, Code.COORDINATOR_NOT_AVAILABLE: Reaction.RETRY},
    "JoinGroup": {
        **COORDINATOR,
        Code.MEMBER_ID_REQUIRED: Reaction.RETRY_WITH_MEMBER_ID,
        Code.UNKNOWN_MEMBER_ID: Reaction.REJOIN_AS_NEW,
        Code.REBALANCE_IN_PROGRESS: Reaction.REJOIN_KEEPING,
        Code.UNKNOWN_SERVER_ERROR: Reaction.RETRY_FOR_A_TIME,
    },
    "SyncGroup": {**CLASSIC, Code.UNKNOWN_SERVER_ERROR: Reaction.RETRY_FOR_A_TIME},
    "Heartbeat": CLASSIC,
    "LeaveGroup": COORDINATOR,
    "OffsetCommit": {
        **COORDINATOR,
        Code.REQUEST_TIMED_OUT: Reaction.RETRY,
        Code.UNKNOWN_TOPIC_OR_PARTITION: Reaction.RETRY,
        Code.UNKNOWN_TOPIC_ID: Reaction.RETRY,
        Code.STALE_MEMBER_EPOCH: Reaction.RETRY_WITH_NEW_EPOCH,
        Code.ILLEGAL_GENERATION: Reaction.RETRY_WITH_NEW_EPOCH,
        Code.REBALANCE_IN_PROGRESS: Reaction.RETRY,
    },
    "OffsetFetch": {
        **COORDINATOR,
        Code.UNSTABLE_OFFSET_COMMIT: Reaction.RETRY,
        Code.STALE_MEMBER_EPOCH: Reaction.RETRY_WITH_NEW_EPOCH,
        Code.ILLEGAL_GENERATION: Reaction.RETRY_WITH_NEW_EPOCH,
    },
    "Metadata": {Code.NONE: Reaction.ACCEPT, Code.LEADER_NOT_AVAILABLE: Reaction.RETRY},
    "ListOffsets": LEADER,
    "Fetch": LEADER,
    "Produce": LEADER,
}


def reaction(api: str, code: int) -> Reaction:
    """Return what a client does when `api` (Kafka's name, without Request) is answered with
    `code`.
    """
    rows = REACTIONS.get(api, COORDINATOR)
    return rows.get(Code.of(code), Reaction.RAISE)
