"""Any subscription and any assignment of Kafka Streams, and what a version makes of them."""

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from hypothesis import strategies as st

from apportion.streams.metadata.model import (
    OFFSET_UNKNOWN,
    RUNNING,
    AssignmentInfo,
    HostInfo,
    SubscriptionInfo,
    TaskId,
)
from apportion.streams.metadata.probing import MetadataVersions
from apportion.topics import TopicPartition


def versions(text: str) -> MetadataVersions:
    """The version in use and the one supported, of "8/11"; of "2" nobody knows the latter."""
    return MetadataVersions(*map(int, text.split("/")))


def spoken(text: str) -> dict[str, MetadataVersions]:
    """What each process uses and supports, of "a 8/11, b 2"."""
    return {name: versions(said) for name, said in map(str.split, text.split(", "))}


NUMBERS = st.integers(0, 3) | st.integers(0, 2**31 - 1)
SUMS = st.sampled_from([RUNNING, OFFSET_UNKNOWN]) | st.integers(0, 2**63 - 1)
NAMES = st.text(max_size=5)
PARTITIONS = st.lists(st.builds(TopicPartition, NAMES, NUMBERS), max_size=4, unique=True).map(
    lambda some: tuple(sorted(some))
)
HOSTS = st.dictionaries(st.builds(HostInfo, NAMES, NUMBERS), PARTITIONS, max_size=3)


def tasks(version: int) -> st.SearchStrategy[Any]:
    """Tasks that the version can say."""
    return st.builds(
        TaskId,
        NUMBERS,
        NUMBERS,
        st.none() | st.text(min_size=1, max_size=4) if version >= 10 else st.none(),
    )


def subscriptions(version: int) -> st.SearchStrategy[Any]:
    """Subscriptions in that version, which may hold more than it can say."""
    return st.builds(
        SubscriptionInfo,
        used=st.just(version),
        supported=st.integers(version, 2**31 - 1),
        process_id=st.binary(min_size=16, max_size=16),
        endpoint=NAMES,
        offset_sums=st.dictionaries(tasks(version), SUMS, max_size=5),
        unique=st.integers(-128, 127),
        error=st.integers(-(2**31), 2**31 - 1),
        tags=st.dictionaries(NAMES, NAMES, max_size=3),
    )


def assignments(version: int) -> st.SearchStrategy[Any]:
    """Assignments in that version, which may hold more than it can say."""
    return st.builds(
        AssignmentInfo,
        used=st.just(version),
        supported=st.integers(version, 2**31 - 1),
        active=st.lists(tasks(version), max_size=5).map(tuple),
        standby=st.dictionaries(tasks(version), PARTITIONS, max_size=3),
        active_hosts=HOSTS,
        standby_hosts=HOSTS,
        error=st.integers(0, 4),
        next_rebalance_ms=st.none() | st.integers(0, 2**63 - 2),
    )


def kept_subscription(info: SubscriptionInfo) -> SubscriptionInfo:
    """What its version leaves of a subscription."""
    left_out: dict[str, Any] = {
        "supported": -1 if info.used < 3 else info.supported,
        "endpoint": "" if info.used < 2 else info.endpoint,
        "unique": 0 if info.used < 8 else info.unique,
        "error": 0 if info.used < 9 else info.error,
        "tags": {} if info.used < 11 else info.tags,
    }
    sums = info.offset_sums
    if info.used < 7:
        sums = {
            task: offset_sum if offset_sum == RUNNING else OFFSET_UNKNOWN
            for task, offset_sum in sums.items()
        }
    return replace(info, offset_sums=sums, **left_out)


def kept_assignment(info: AssignmentInfo) -> AssignmentInfo:
    """What its version leaves of an assignment."""
    return replace(
        info,
        supported=-1 if info.used < 3 else info.supported,
        active_hosts={} if info.used < 2 else info.active_hosts,
        standby_hosts={} if info.used < 6 else info.standby_hosts,
        error=0 if info.used < 4 else info.error,
        next_rebalance_ms=None if info.used < 7 else info.next_rebalance_ms,
    )


MAPS: dict[str, Any] = {"standby": TaskId, "active_hosts": HostInfo, "standby_hosts": HostInfo}
"""The maps of an assignment, and what their keys are."""


def in_json(info: SubscriptionInfo | AssignmentInfo) -> dict[str, Any]:
    """All that `info` says, as JSON can say it, entries in order; an assignment is the one with
    "active".
    """
    named = {field.name: getattr(info, field.name) for field in fields(info)}
    if isinstance(info, SubscriptionInfo):
        maps = {"offset_sums": in_order(info.offset_sums), "tags": in_order(info.tags)}
        return named | maps | {"process_id": info.process_id.hex()}
    return named | {name: in_order(named[name]) for name in MAPS}


def in_order(entries: Mapping[Any, Any]) -> list[tuple[Any, Any]]:
    """The entries by their keys; null, the lack of a topology's name, counts as an empty one."""
    return sorted(
        entries.items(), key=lambda entry: ["" if part is None else part for part in entry[0]]
    )


def out_of_json(named: Mapping[str, Any]) -> SubscriptionInfo | AssignmentInfo:
    """What `in_json` said, and what Java says in the same form."""
    if "active" not in named:
        sums = {TaskId(*task): offset_sum for task, offset_sum in named["offset_sums"]}
        values = {
            "process_id": bytes.fromhex(named["process_id"]),
            "offset_sums": sums,
            "tags": dict(named["tags"]),
        }
        return SubscriptionInfo(**{**named, **values})
    maps = {
        name: {
            key(*row): tuple(sorted(TopicPartition(*each) for each in partitions))
            for row, partitions in named[name]
        }
        for name, key in MAPS.items()
    }
    return AssignmentInfo(
        **{**named, **maps, "active": tuple(TaskId(*row) for row in named["active"])}
    )
