"""To which sinks a consumer group belongs, by the metadata of its committed offsets.

A committed offset says that the records below it are processed, and that is true for one sink only.
A query with another table, or a plain consumer, that goes on from there commits past records which
the first sink never gets. So a query whose sinks are known commits with their names as metadata,
reads all offsets of the group before it joins, and is refused where they name other sinks. Reasons:
docs/decisions/0041.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from apportion.member.cluster_queries.offsets import OffsetAndMetadata
from apportion.member.queries import FetchCommitted
from apportion.readable import readable, shortened
from apportion.rules import Rule
from apportion.topics import TopicIdPartition, Topics, partitions_of

MAX_METADATA_BYTES = 4096  # the default of Kafka's offset.metadata.max.bytes
MAX_SHOWN_CHARS = 500  # how much of the sinks' names an error shows

Sinks = tuple[str, ...]
"""The names of everything that one Spark query writes to, Delta tables mostly, in order.

() for a query whose sink is not known: no writer of apportion has reported it.
"""


class AnotherSink(RuntimeError):
    """The group belongs to another sink. The text names both, and says what to do."""


class EpochCheck:
    """A check for claims that a member repeats in each new epoch: a claimant may have joined.

    A dynamic member joins with a new epoch, so one check in each is enough. Only a static member
    can be replaced within one (KIP-345), by another application with its group.instance.id.
    """

    def __init__(self) -> None:
        self._checked = (0, 0)  # the incarnation and epoch of the last check

    def run(self, incarnation: int, epoch: int, check: Rule[object]) -> Rule[None]:
        """Run the check, unless it has passed in this epoch."""
        if (incarnation, epoch) != self._checked:
            yield from check
            self._checked = incarnation, epoch


def fetch_offsets(
    topics: Topics, incarnation: int, added: Iterable[TopicIdPartition] = ()
) -> Rule[dict[TopicIdPartition, OffsetAndMetadata]]:
    """Return the group's committed offsets of all partitions of these topics, and of `added`.

    All partitions, not the assigned ones alone: a claim on one is on the group. added: a topic may
    have been created, or have grown, since the metadata of `topics` was fetched.
    incarnation: of the member that asks; 0 to ask without a member id.
    """
    partitions = {each for topic in topics for each in partitions_of(topic)}
    requested = tuple(sorted(partitions.union(added)))
    stored: dict[TopicIdPartition, OffsetAndMetadata] = (
        (yield FetchCommitted(requested, incarnation)) if requested else {}
    )
    return stored


def metadata_of(sinks: Sinks, *, starting: bool = False) -> str:
    """Return the OffsetCommit metadata of a Spark query that writes to `sinks`; "" if unknown.

    starting: the sinks have nothing of the partition yet, and are to begin at the offset.
    Raises AnotherSink if it is too long for a committed offset.
    """
    if not sinks:
        return ""
    mark = {"starting": True} if starting else {}
    text = json.dumps({"sinks": sinks, **mark}, separators=(",", ":"))
    if len(text.encode()) > MAX_METADATA_BYTES:
        raise AnotherSink(
            f"the names of its sinks take {len(text.encode())} bytes, and the metadata of "
            "an offset has room for "
            f"{MAX_METADATA_BYTES}: write to fewer tables, or to shorter paths"
        )
    return text


def sinks_of(metadata: str) -> Sinks | None:
    """Return the sinks that a committed offset's metadata names; None if no query wrote it."""
    # Nothing but an object with such a list is a claim: that of other clients may be JSON, too.
    sinks = _object_of(metadata).get("sinks")
    return (
        tuple(sinks)
        if isinstance(sinks, list) and all(isinstance(name, str) for name in sinks)
        else None
    )


def is_starting(metadata: str) -> bool:
    """Return whether a committed offset is where its sinks are to begin: they have nothing yet."""
    return _object_of(metadata).get("starting") is True


def _object_of(metadata: str) -> dict[str, Any]:
    """Return the JSON object that a committed offset's metadata is; {} if it is none."""
    try:
        value = json.loads(metadata)
    except (ValueError, RecursionError):
        # any client may have committed any text: nested deeply it raises RecursionError
        return {}
    return value if isinstance(value, dict) else {}


UNREAD_METADATA = json.dumps({"sinks": []}, separators=(",", ":"))
"""The metadata of an offset that its query gave back before it read anything: any sink may have it.
"""


def refuse_other_sinks(mine: Sinks, stored: Mapping[TopicIdPartition, OffsetAndMetadata]) -> None:
    """Raise AnotherSink if a committed offset of a Spark query's group names other sinks.

    Called before the query's member joins the group, and when it gains partitions. mine: the sinks
    of this query; () if they are not known. stored: the committed offsets of the group; those
    without the name of a sink are no claim (`claimed_sinks` leaves them out).
    """
    for partition, sinks in claimed_sinks(stored).items():
        # Also where `mine` is (): a query of unknown sinks may not go on in a claimed group.
        if sinks != mine:
            raise AnotherSink(_other_sink_text(partition, sinks, mine))


def refuse_skipped_records(mine: Sinks, skipped: Mapping[TopicIdPartition, int]) -> None:
    """Raise AnotherSink if a Spark query would skip records because of committed offsets.

    mine: the query's sinks. skipped: the committed offsets that name no sink; nothing says that
    the records below them have reached `mine`.
    """
    for partition, offset in sorted(skipped.items()):
        raise AnotherSink(
            f"it has committed offsets ({partition}: {offset}) that did not come from "
            f"{sink_names(mine)}: the records below them "
            "would never be there. Give this query a group of its own (kafka.group.id); "
            "or, if it is to begin at these "
            "offsets, stop all members of the group and start again, with the same "
            "checkpoint and delta.Writer(..., adopt=True)"
        )


def claimed_sinks(
    stored: Mapping[TopicIdPartition, OffsetAndMetadata],
) -> dict[TopicIdPartition, Sinks]:
    """Return the sinks that a group's committed offsets name, by partition in order."""
    return {
        partition: sinks
        for partition, committed in sorted(stored.items())
        if (sinks := sinks_of(committed.metadata))
    }


def claims_without(
    sink: str, stored: Mapping[TopicIdPartition, OffsetAndMetadata]
) -> dict[TopicIdPartition, Sinks]:
    """Return the claims on a group, by partition in order, that a query with this sink breaks.

    A query may have several sinks, with a writer for each, and one writer knows its own alone.
    """
    claims = claimed_sinks(stored)
    return {partition: sinks for partition, sinks in claims.items() if sink not in sinks}


def unclaimed_offsets(
    stored: Mapping[TopicIdPartition, OffsetAndMetadata],
) -> dict[TopicIdPartition, int]:
    """Return the group's committed offsets that name no sink, by partition in order."""
    return {
        partition: committed.offset
        for partition, committed in sorted(stored.items())
        if sinks_of(committed.metadata) is None and committed.offset is not None
    }


def refuse_consumer(group_id: str, stored: Mapping[TopicIdPartition, OffsetAndMetadata]) -> None:
    """Raise AnotherSink if a plain consumer is in a group that belongs to a sink.

    Called by a `Consumer` with the committed offsets of what it is assigned.
    """
    # One claimed partition is enough: the group belongs to its sink as a whole.
    for partition, sinks in claimed_sinks(stored).items():
        raise AnotherSink(
            f"group {readable(group_id)}: it belongs to the sink {sink_names(sinks)}, as the "
            f"committed offset of {partition} says: "
            "what this consumer read and committed would never be there. Give the "
            "consumer a group of its own (group_id)"
        )


def sink_names(sinks: Sinks) -> str:
    """Return the names of a query's sinks for the text of AnotherSink.

    Escaped, and at most MAX_SHOWN_CHARS of them: any client may have committed them as metadata.
    """
    return (
        shortened(" and ".join(sinks), MAX_SHOWN_CHARS)
        or "a sink without a name (no writer of apportion has reported which table it writes to)"
    )


def _other_sink_text(partition: TopicIdPartition, sinks: Sinks, mine: Sinks) -> str:
    """Return the text of AnotherSink for a group whose committed offset names other sinks.

    mine: the sinks of the query; () while its writers have not reported them.
    """
    moved = (
        "; or, if the table was moved, stop all members of the group and start again, "
        "with the same checkpoint and "
        "delta.Writer(..., adopt=True)"
        if mine
        else ""
    )
    return (
        f"it belongs to the sink {sink_names(sinks)}, as the committed offset of {partition} says, "
        f"and this query writes to {sink_names(mine)}: "
        "each of the two would get a part of the records. Give this query a group of its "
        f"own (kafka.group.id){moved}"
    )
