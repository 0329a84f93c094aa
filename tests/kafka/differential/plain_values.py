"""Parts of answers as plain values, in which the ids that a broker invented are the names of the
script.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Protocol

TopicIndex = tuple[str, int]
Plain = Any


class Names(Protocol):
    """Who knows what a broker's ids stand for."""

    def topic_name(self, topic_id: bytes) -> str:
        """The name behind a topic's id."""
        ...

    def who(self, member_id: str | None) -> str | None:
        """The letter behind a member's id."""
        ...

    def partitions_in(self, parts: Any) -> frozenset[TopicIndex]:
        """The partitions in a part of a message."""
        ...


def gathered(pairs: Iterable[tuple[str, Plain]]) -> dict[str, Plain]:
    """All that was said of each name; what is said of one that was named twice stands under it
    "again".
    """
    result: dict[str, Plain] = {}
    for name, each in pairs:
        while name in result:
            name = f"{name} again"
        result[name] = each
    return result


def grouped(partitions: Any) -> dict[str, tuple[int, ...]]:
    """Partitions by topic, ascending."""
    topics: dict[str, list[int]] = {}
    for name, index in sorted(partitions):
        topics.setdefault(name, []).append(index)
    return {name: tuple(indexes) for name, indexes in topics.items()}


def offsets(names: Names, topics: Any, version: int) -> Iterator[tuple[str, Plain]]:
    """Every partition of an OffsetFetch with its code, offset, epoch and the length of its note."""
    for topic in topics:
        name = names.topic_name(topic.topic_id) if version >= 10 else topic.name
        for each in topic.partitions:
            note = None if each.metadata is None else len(each.metadata)
            committed = (each.error_code, each.committed_offset, each.committed_leader_epoch, note)
            yield f"{name}-{each.partition_index}", committed


def described(names: Names, group: Any) -> Plain:
    """One group of a description."""
    return {
        "code": group.error_code,
        "has message": group.error_message is not None,
        "state": group.group_state,
        "epoch": group.group_epoch,
        "assignment epoch": group.assignment_epoch,
        "assignor": group.assignor_name,
        "operations": group.authorized_operations,
        "members": {
            names.who(member.member_id): described_member(names, member) for member in group.members
        },
    }


def described_member(names: Names, member: Any) -> Plain:
    """One member of a description."""
    return {
        "instance": member.instance_id,
        "rack": member.rack_id,
        "epoch": member.member_epoch,
        "client": member.client_id,
        "host": member.client_host,
        "topics": tuple(sorted(member.subscribed_topic_names)),
        "regex": member.subscribed_topic_regex,
        "assignment": grouped(names.partitions_in(member.assignment.topic_partitions)),
        "target": grouped(names.partitions_in(member.target_assignment.topic_partitions)),
        "type": member.member_type,
    }
