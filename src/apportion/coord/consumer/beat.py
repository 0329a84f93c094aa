"""One heartbeat of a member, by ConsumerGroupHeartbeat or by the classic protocol."""

from typing import NamedTuple

from apportion.coord.consumer.units import PartitionsOfTopic
from apportion.machine import Access, Caller
from apportion.wire.records.groups import (
    ClassicMemberMetadata,
    ConsumerGroupMemberMetadataValue,
    RecordClientAssignor,
)

JOINING = 0
LEAVING = -1
AWAY = -2
"""Epochs with a meaning: join or rejoin; leave; leave temporarily, as static members do to
restart.
"""


BLANK = "".join(map(chr, range(0x21)))
"""What Java trims: every character up to the space."""


class Beat(NamedTuple):
    """One heartbeat. None (-1 for the timeout) means: unchanged.

    `epoch` is a member epoch, JOINING, LEAVING or AWAY.
    classic: the metadata that only JoinGroup has; None in a heartbeat of the consumer protocol.
    access: what the sender may know of, where the broker has ACLs.
    """

    group_id: str
    member_id: str
    epoch: int
    caller: Caller
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    topics: tuple[str, ...] | None = None
    regex: str | None = None  # "" for no expression
    assignor: str | None = None
    client_assignors: tuple[RecordClientAssignor, ...] | None = None
    owned: tuple[PartitionsOfTopic, ...] | None = None
    classic: ClassicMemberMetadata | None = None
    access: Access | None = None

    @property
    def is_full(self) -> bool:
        """Return whether a ConsumerGroupHeartbeat has every field, as after a lost response."""
        has_subscription = self.topics is not None or self.regex is not None
        return has_subscription and self.rebalance_timeout_ms != -1 and self.owned is not None


def merge_metadata(
    metadata: ConsumerGroupMemberMetadataValue, beat: Beat
) -> ConsumerGroupMemberMetadataValue:
    """Return a member's metadata as its heartbeat changes it; the same object if it does not."""
    if (
        # A steady heartbeat sends none of these fields, and ends here without a new value.
        beat.topics is None
        and beat.regex in (None, metadata.subscribed_topic_regex)
        and beat.instance_id in (None, metadata.instance_id)
        and beat.rack_id in (None, metadata.rack_id)
        and beat.assignor in (None, metadata.server_assignor)
        and beat.client_assignors in (None, metadata.client_assignors)
        and beat.rebalance_timeout_ms in (-1, metadata.rebalance_timeout_ms)
        and beat.caller.client_id == metadata.client_id
        and beat.caller.host == metadata.client_host
        # None for all but classic members, who join seldom
        and beat.classic is metadata.classic_member_metadata
    ):
        return metadata
    whole = ConsumerGroupMemberMetadataValue(
        instance_id=metadata.instance_id if beat.instance_id is None else beat.instance_id,
        rack_id=metadata.rack_id if beat.rack_id is None else beat.rack_id,
        client_id=beat.caller.client_id,
        client_host=beat.caller.host,
        subscribed_topic_names=metadata.subscribed_topic_names
        if beat.topics is None
        # Sorted and each once: the same topics in another order are no change, and bump no epoch.
        else tuple(sorted(dict.fromkeys(beat.topics))),
        subscribed_topic_regex=metadata.subscribed_topic_regex
        if beat.regex is None
        else beat.regex,
        rebalance_timeout_ms=metadata.rebalance_timeout_ms
        if beat.rebalance_timeout_ms == -1
        else beat.rebalance_timeout_ms,
        server_assignor=metadata.server_assignor if beat.assignor is None else beat.assignor,
        classic_member_metadata=beat.classic,
        client_assignors=metadata.client_assignors
        if beat.client_assignors is None
        else beat.client_assignors,
    )
    return metadata if whole == metadata else whole


def is_blank(text: str) -> bool:
    """Return whether the text is empty after Java's trim, which strips all up to U+0020."""
    return not text.strip(BLANK)
