"""The words of scripts about a consumer group: of requests, and of what the shard answers."""

import re
from collections.abc import Mapping
from typing import Any

from apportion.coord.consumer.expressions import ResolveExpressions
from apportion.errors import Code
from apportion.wire.messages.consumer_group_heartbeat import ClientAssignor, TopicPartitions
from tests.coord.shard_driver import ShardDriver

FACT = re.compile(r"([a-z]+)=(.*)")
OFFER = re.compile(r"([^:@%!]+)(?::(-?\d+)-(-?\d+))?(?:@(-?\d+))?(?:%(-?\d+))?(?:!(.*))?")
FIELDS = {
    "as": "instance_id",
    "rack": "rack_id",
    "wants": "server_assignor",
    "patience": "rebalance_timeout_ms",
    "group": "group_id",
    "regex": "subscribed_topic_regex",
    "version": "version",
    "meta": "metadata",
    "ttl": "retention_time_ms",
}
"""Facts that are fields of a request under another name."""


def fields_of(facts: dict[str, str]) -> dict[str, Any]:
    """Facts as fields of a request; numbers are numbers."""
    return {
        FIELDS[name]: int(value) if name != "meta" and value.lstrip("-").isdigit() else value
        for name, value in facts.items()
    }


def offer(text: str) -> ClientAssignor:
    """`lag:0-2@1%7!data` as an assignor that a member offers."""
    found = OFFER.fullmatch(text)
    assert found is not None, text
    name, least, most, version, reason, data = found.groups()
    numbers = {
        "minimum_version": least,
        "maximum_version": most,
        "version": version,
        "reason": reason,
    }
    given = {field: int(number) for field, number in numbers.items() if number}
    return ClientAssignor(name=name, metadata=(data or "").encode(), **given)


def heartbeat_words(answer: Any) -> str:
    """The answer to a heartbeat in a few words."""
    if answer.error_code:
        return refusal(answer)
    words = f"epoch {answer.member_epoch}"
    if answer.assignment is not None:
        words += f", {names(answer.assignment.topic_partitions)}{answer_words(answer.assignment)}"
    words += ", computes" if answer.should_compute_assignment else ""
    asked = answer.requested_version
    return words + (f", sends {asked.name} {asked.version}" if asked.name else "")


def computation_words(computation: Any) -> str:
    """What was begun beside the shard."""
    if isinstance(computation, ResolveExpressions):
        return " ".join(computation.expressions)
    return f"target {computation.epoch}"


def refusal(answer: Any) -> str:
    """The code of an answer, and its sentence."""
    return Code(answer.error_code).name + (
        f": {answer.error_message}" if answer.error_message else ""
    )


def answer_words(answer: Any) -> str:
    """What an assignor said beside partitions."""
    error = f" error {answer.error}" if answer.error else ""
    return error + data_words(0, answer.metadata_version, answer.metadata)


def data_words(reason: int, version: int, data: bytes) -> str:
    """The metadata of an assignor, as far as there are any."""
    facts = ((" reason", reason), (" version", version), (" data", bytes(data).decode()))
    return "".join(f"{name} {value}" for name, value in facts if value)


def metrics_words(driver: ShardDriver, group_id: str = "g") -> list[str]:
    """The metrics of a group: what is there, what was counted, the seconds in each state."""
    found = [each for each in driver.metrics() if each.group_id == group_id]
    return [
        f"{each.protocol} {each.state}, members {each.members}, epoch {each.epoch}"
        + ("" if each.assignment_epoch is None else f"/{each.assignment_epoch}")
        + f", unowned {each.unowned_partitions}, rebalances {each.rebalances}"
        + ("" if each.targets_computed is None else f", targets {each.targets_computed}")
        + f", heartbeats {each.heartbeats}"
        + counts_words("removed", each.removed_members)
        + counts_words("seconds", each.state_seconds)
        for each in found
    ] or ["no group"]


def counts_words(about: str, counts: Mapping[Any, float]) -> str:
    """The counts that are not zero."""
    some = [f"{name} {count}" for name, count in counts.items() if count]
    return f"; {about}: {', '.join(some)}" if some else ""


def by_topic(words: list[str]) -> dict[str, list[int]]:
    """["foo-0", "foo-1..2"] as {"foo": [0, 1, 2]}."""
    result: dict[str, list[int]] = {}
    for word in words:
        topic, _, numbers = word.rpartition("-")
        first, _, last = numbers.partition("..")
        numbers_left = result.setdefault(topic, [])
        numbers_left += range(int(first), int(last or first) + 1) if first else ()
    return result


def names(topic_partitions: tuple[TopicPartitions, ...]) -> str:
    """Partitions of a message as words."""
    return named((part.topic_id, part.partitions) for part in topic_partitions)


def named(held: Any) -> str:
    """(topic id, partitions) as words."""
    words = [
        f"{some.decode().lstrip('.').removesuffix('.0')}-{index}"
        for some, indexes in held
        for index in indexes
    ]
    return " ".join(words) or "nothing"
