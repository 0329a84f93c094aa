"""A client's reaction to each error code, as one table: API by error code.

The table says what a client does within one operation, such as a commit with its retries. An error
that no row names is raised to the caller; in a member's heartbeat it ends the membership. How long
and how often to retry is the caller's decision.

`is_permanent` is about an operation that has ended with an error: whether its caller may do all of
it again later, as the next poll of a consumer does. There Kafka's own list of retriable codes
decides, which names more codes than a row does.
"""

from enum import Enum

from apportion.errors import AUTHENTICATION_FAILURES, Code, Refused


class Reaction(Enum):
    """A client's reaction to a response."""

    ACCEPT = "the request has succeeded"
    RETRY = "send the request to the same broker again, after a pause"
    RETRY_AND_TELL = "the same, and raise the error to the caller until it is accepted"
    FIND_COORDINATOR = "find the group's coordinator again, then send it the request"
    REFRESH_METADATA = "fetch the cluster's metadata again, then send the request to the new leader"
    REJOIN = "the membership is lost: join again with the same member id"
    REJOIN_AS_NEW = "the membership and the member id are lost: join again without a member id"
    REJOIN_KEEPING = "the group rebalances: join the next generation, keeping owned partitions"
    RETRY_WITH_MEMBER_ID = "send the request again with the member id in the response"
    RETRY_WITH_NEW_EPOCH = "send the request again with the newest member epoch, if it has changed"
    RETRY_UNLESS_DELETED = "send the request again, after a pause, unless its topic was deleted"
    RETRY_FOR_A_TIME = "only time can resolve it: send the request again, for a bounded time"
    RAISE = "raise the error to the caller"


COORDINATOR = {  # of every request to a coordinator
    Code.NONE: Reaction.ACCEPT,
    Code.COORDINATOR_LOAD_IN_PROGRESS: Reaction.RETRY,
    Code.COORDINATOR_NOT_AVAILABLE: Reaction.FIND_COORDINATOR,
    Code.NOT_COORDINATOR: Reaction.FIND_COORDINATOR,
}

LEADER = {  # of requests to the leader of a partition
    Code.NONE: Reaction.ACCEPT,
    Code.NOT_LEADER_OR_FOLLOWER: Reaction.REFRESH_METADATA,
    Code.LEADER_NOT_AVAILABLE: Reaction.REFRESH_METADATA,
    Code.FENCED_LEADER_EPOCH: Reaction.REFRESH_METADATA,
    Code.UNKNOWN_LEADER_EPOCH: Reaction.REFRESH_METADATA,
    Code.REPLICA_NOT_AVAILABLE: Reaction.REFRESH_METADATA,
    Code.KAFKA_STORAGE_ERROR: Reaction.REFRESH_METADATA,
    # A new leader does not know its high watermark yet; it stays the leader.
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
    # Kafka's consumer sends the next heartbeat after any error but FENCED_INSTANCE_ID, which alone
    # ends its heartbeat thread.
    Code.UNKNOWN_SERVER_ERROR: Reaction.RETRY_FOR_A_TIME,
}

LOST_MEMBERSHIP = (
    Code.UNKNOWN_MEMBER_ID,
    Code.STALE_MEMBER_EPOCH,
    Code.FENCED_MEMBER_EPOCH,
    Code.ILLEGAL_GENERATION,
    Code.REBALANCE_IN_PROGRESS,
)

REACTIONS: dict[str, dict[Code, Reaction]] = {
    "ConsumerGroupHeartbeat": {
        **COORDINATOR,
        # KIP-848: with the same member id, at epoch 0, and without a pause.
        Code.FENCED_MEMBER_EPOCH: Reaction.REJOIN,
        Code.UNKNOWN_MEMBER_ID: Reaction.REJOIN,
        # The coordinator has lost or removed the group; joining creates it again.
        Code.GROUP_ID_NOT_FOUND: Reaction.REJOIN,
        # Kafka's clients end with this error. The instance before this one may just be shutting
        # down, or its session about to expire, so waiting helps (decisions/0012).
        Code.UNRELEASED_INSTANCE_ID: Reaction.RETRY_FOR_A_TIME,
        Code.UNKNOWN_SERVER_ERROR: Reaction.RETRY_FOR_A_TIME,
        # As in Kafka's consumer: the membership stays while an ACL is missing, and each poll says
        # which.
        Code.TOPIC_AUTHORIZATION_FAILED: Reaction.RETRY_AND_TELL,
    },
    # COORDINATOR_NOT_AVAILABLE says here that the group has no coordinator yet; the remedy is to
    # send this same request again.
    "FindCoordinator": {**COORDINATOR, Code.COORDINATOR_NOT_AVAILABLE: Reaction.RETRY},
    "JoinGroup": {
        **COORDINATOR,
        Code.MEMBER_ID_REQUIRED: Reaction.RETRY_WITH_MEMBER_ID,
        Code.UNKNOWN_MEMBER_ID: Reaction.REJOIN_AS_NEW,
        Code.REBALANCE_IN_PROGRESS: Reaction.REJOIN_KEEPING,
        Code.UNKNOWN_SERVER_ERROR: Reaction.RETRY_FOR_A_TIME,
    },
    "SyncGroup": CLASSIC,
    "Heartbeat": CLASSIC,
    # No row for UNKNOWN_MEMBER_ID: a leave is not repeated, whatever the answer.
    "LeaveGroup": COORDINATOR,
    "OffsetCommit": {
        **COORDINATOR,
        Code.REQUEST_TIMED_OUT: Reaction.RETRY,
        # The coordinator may not know yet of a topic that was just created; a deleted one never
        # comes back.
        Code.UNKNOWN_TOPIC_OR_PARTITION: Reaction.RETRY_UNLESS_DELETED,
        Code.UNKNOWN_TOPIC_ID: Reaction.RETRY_UNLESS_DELETED,
        # KIP-848: the epoch may have risen while the commit was under way; the offsets are as good
        # as before if a heartbeat has brought the new one.
        Code.STALE_MEMBER_EPOCH: Reaction.RETRY_WITH_NEW_EPOCH,
        Code.ILLEGAL_GENERATION: Reaction.RETRY_WITH_NEW_EPOCH,
        Code.REBALANCE_IN_PROGRESS: Reaction.RETRY,
    },
    "OffsetFetch": {
        **COORDINATOR,
        # KIP-447: a transaction that is open commits offsets of this partition; its end decides
        # them.
        Code.UNSTABLE_OFFSET_COMMIT: Reaction.RETRY,
        Code.STALE_MEMBER_EPOCH: Reaction.RETRY_WITH_NEW_EPOCH,
        Code.ILLEGAL_GENERATION: Reaction.RETRY_WITH_NEW_EPOCH,
    },
    "Metadata": {
        Code.NONE: Reaction.ACCEPT,
        Code.LEADER_NOT_AVAILABLE: Reaction.RETRY,
        # From a bootstrap server, whose answer replaces all that is known of brokers (KIP-1102).
        Code.REBOOTSTRAP_REQUIRED: Reaction.RETRY,
    },
    "ListOffsets": LEADER,
    "Fetch": LEADER,
    "Produce": LEADER,
}


def reaction(api: str, code: int) -> Reaction:
    """Return what a client does about the error `code` in a response of `api`.

    api: Kafka's name, such as "OffsetCommit".
    """
    rows = REACTIONS.get(api, COORDINATOR)
    return rows.get(Code.of(code), Reaction.RAISE)


def retry_or_raise(api: str, refused: Refused) -> Reaction:
    """Return what a client does before it sends a request again that was refused.

    One of RETRY, FIND_COORDINATOR and REFRESH_METADATA; the error is raised for any other reaction.
    """
    meant = reaction(api, refused.code)
    if meant not in (Reaction.RETRY, Reaction.FIND_COORDINATOR, Reaction.REFRESH_METADATA):
        raise refused
    return meant


def is_permanent(error: Exception) -> bool:
    """Return whether an operation that ended with this error can never succeed later.

    It can after every error that Kafka calls retriable, and where no broker has answered.
    """
    return isinstance(error, Refused) and not error.code.retriable


def is_authentication_failure(error: Exception) -> bool:
    """Return whether the error says that a connection could not be secured, now and later."""
    return isinstance(error, Refused) and error.code in AUTHENTICATION_FAILURES


def is_coordinator_away(code: Code) -> bool:
    """Return whether a broker that answers so does not coordinate the group, or not yet.

    A coordinator that answers later has loaded the group since, perhaps because it started again.
    """
    return code in COORDINATOR and code is not Code.NONE


def is_lost_membership(code: Code) -> bool:
    """Return whether the error says that the membership, or its generation, has ended.

    For requests other than the member's own heartbeats: the member's next state shows what follows.
    """
    return code in LOST_MEMBERSHIP
