"""What a member says in one heartbeat, whichever door it came through."""

from dataclasses import dataclass

from apportion.coord.consumer.units import PartitionsOfTopic
from apportion.machine import Caller
from apportion.wire.records.groups import ClassicMemberMetadata, ConsumerGroupMemberMetadataValue

JOINING = 0
LEAVING = -1
AWAY = -2
"""The epochs that are words: join (or join again), leave for good, leave a static member's place open."""


@dataclass(slots=True, frozen=True)
class Beat:
    """One heartbeat. None (for the timeout -1) means: as I said before; `epoch` may be one of the words above.

    classic: what a JoinGroup says beside all that; a heartbeat of the new protocol has none, and its sender is no classic member.
    """

    group_id: str
    member_id: str
    epoch: int
    caller: Caller
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    topics: tuple[str, ...] | None = None
    regex: str | None = None  # "" or None until expressions are resolved
    assignor: str | None = None
    owned: tuple[PartitionsOfTopic, ...] | None = None
    classic: ClassicMemberMetadata | None = None

    @property
    def is_full(self) -> bool:
        """True where the member said everything, as it does when it may have missed an answer."""
        says_wishes = self.topics is not None or self.regex is not None
        return says_wishes and self.rebalance_timeout_ms != -1 and self.owned is not None


def merge_metadata(said: ConsumerGroupMemberMetadataValue, beat: Beat) -> ConsumerGroupMemberMetadataValue:
    """What the member has said up to and including `beat`; the very same value where that is nothing new."""
    if (
        beat.topics is None
        and beat.instance_id in (None, said.instance_id)
        and beat.rack_id in (None, said.rack_id)
        and beat.assignor in (None, said.server_assignor)
        and beat.rebalance_timeout_ms in (-1, said.rebalance_timeout_ms)
        and beat.caller.client_id == said.client_id
        and beat.caller.host == said.client_host
        and beat.classic is said.classic_member_metadata  # None for all but classic members, who join seldom
    ):
        return said
    whole = ConsumerGroupMemberMetadataValue(
        instance_id=said.instance_id if beat.instance_id is None else beat.instance_id,
        rack_id=said.rack_id if beat.rack_id is None else beat.rack_id,
        client_id=beat.caller.client_id,
        client_host=beat.caller.host,
        subscribed_topic_names=said.subscribed_topic_names if beat.topics is None else tuple(sorted(dict.fromkeys(beat.topics))),
        subscribed_topic_regex=said.subscribed_topic_regex,
        rebalance_timeout_ms=said.rebalance_timeout_ms if beat.rebalance_timeout_ms == -1 else beat.rebalance_timeout_ms,
        server_assignor=said.server_assignor if beat.assignor is None else beat.assignor,
        classic_member_metadata=beat.classic,
    )
    return said if whole == said else whole
