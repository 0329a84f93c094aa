"""The settings of a group member: those of Kafka's consumer, and the fields of every member.

A setting is declared here if at least two of Consumer, StreamsConsumer and the Spark source have it
as an option or obey its default. They take bounds and choices from the declaration, and the default
and the sentence too where these suit them.
"""

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING

from apportion.errors import Code
from apportion.settings import MAX_INT32, Setting
from apportion.wire.messages.join_group import JoinGroupRequest
from apportion.wire.messages.sync_group import SyncGroupRequest

# A process that only parses options needs no membership.
if TYPE_CHECKING:
    from apportion.member.membership import MembershipRequest

JOIN_TIMEOUT_LAPSE_MS = 5_000

CLIENT_ID = Setting("The name that brokers log and tools show.", "apportion")
GROUP_PROTOCOL = Setting(
    "consumer (KIP-848: the broker assigns) or classic (a member assigns).",
    "consumer",
    choices=("consumer", "classic"),
)
INSTANCE_ID = Setting(
    "The name that a static member keeps over restarts (group.instance.id, KIP-345).",
    default_words="none",
)
HEARTBEAT_INTERVAL_MS = Setting(
    "The time between two heartbeats of a classic member, and the longest time until it learns of "
    "a rebalance; less than its session timeout and its max poll interval.",
    3_000,
    at_least=1,
    at_most=MAX_INT32,
)
MAX_POLL_INTERVAL_MS = Setting(
    "The longest time between two polls, and for giving up a partition; after it the consumer "
    "leaves the group. The time may count from up to a tenth of it before the last poll.",
    300_000,
    at_least=1,
    at_most=MAX_INT32,
)
METADATA_MAX_AGE_MS = Setting(
    "The longest time until the leader of a classic group notices new partitions.",
    300_000,
    at_least=1,
    at_most=MAX_INT32,
)
REQUEST_TIMEOUT_MS = Setting(
    "How long a request may take with its retries; a member's heartbeats and joins have limits of "
    "their own.",
    30_000,
    at_least=1,
    at_most=MAX_INT32,
)
SESSION_TIMEOUT_MS = Setting(
    "How long a classic member may be silent, within the limits of the broker.",
    45_000,
    at_least=1,
    at_most=MAX_INT32,
)


def heartbeat_fault_or_none(
    heartbeat: tuple[str, int], session: tuple[str, int], poll: tuple[str, int]
) -> str | None:
    """Return why a classic member cannot have this heartbeat interval; None if it can.

    Each is the option's name and its value in ms: of the heartbeat interval, the session timeout
    and the max poll interval.
    """
    for limit, otherwise in (
        (session, "the session ends between two heartbeats; a third of it is usual"),
        (poll, "a rebalance ends before the members have learnt of it"),
    ):
        if heartbeat[1] >= limit[1]:
            return (
                f"{heartbeat[0]} ({heartbeat[1]}) must be below {limit[0]} ({limit[1]}), "
                f"or {otherwise}"
            )
    return None


@dataclass(frozen=True, slots=True)
class MemberSettings:
    """Identity and timeouts that a member has with either group protocol.

    rebalance_timeout_ms: how long the owner may take to revoke partitions before the coordinator
    removes the member.
    poll_limit_ms: how long the owner may go without polling before the member leaves
    (max.poll.interval.ms); None: for ever.
    response_timeout_ms: how long to wait for one response before the member asks again; shorter
    than `REQUEST_TIMEOUT_MS`, which limits the other requests of a client with their retries, since
    a session goes on meanwhile.
    wait_limit_ms: how long to retry where only time can help: an unreleased instance id, a failed
    coordinator.
    """

    group_id: str
    _: KW_ONLY
    instance_id: str | None = None
    rack_id: str | None = None
    # As in Kafka's consumer, max.poll.interval.ms is the rebalance timeout as well.
    rebalance_timeout_ms: int = MAX_POLL_INTERVAL_MS.default
    poll_limit_ms: int | None = None
    response_timeout_ms: int = 5_000
    backoff_ms: int = 100
    backoff_limit_ms: int = 1_000
    wait_limit_ms: int = 120_000

    def timeout_ms(self, request: "MembershipRequest") -> int:
        """Return how long to wait for the response to a member's request."""
        # The coordinator holds both back until all members have joined or synced.
        if isinstance(request, JoinGroupRequest | SyncGroupRequest):
            return max(self.response_timeout_ms, self.rebalance_timeout_ms + JOIN_TIMEOUT_LAPSE_MS)
        return self.response_timeout_ms

    def explain(self, code: Code) -> str:
        """Return the sentence for an error, with what to change."""
        return code.sentence
