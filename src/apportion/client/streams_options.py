"""The options of `apportion.StreamsConsumer` beside those of a Consumer, by Kafka Streams' names and within its bounds."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from apportion.client.options import OPTIONS, check_names
from apportion.member.streams.assignor import NEWEST_RELEASE

STREAMS: dict[str, Any] = {  # option -> default
    "process_id": None,
    "application_server": "",
    "client_tags": {},
    "upgrade_from": None,
    "release": NEWEST_RELEASE,
    "task_assignor": "highavailability",
    "num_standby_replicas": 0,
    "acceptable_recovery_lag": 10_000,
    "max_warmup_replicas": 2,
    "probing_rebalance_interval_ms": 600_000,
    "rack_aware_assignment_tags": (),
    "on_tasks": None,
}
DECIDED = ("group_protocol", "partition_assignment_strategy", "server_assignor")
"""Options of a Consumer that a Streams group leaves no choice in."""
FREE = tuple(name for name in OPTIONS if name not in DECIDED)
"""Those that it does."""
CHOICE = ("highavailability", "sticky")
"""The task assignors that an application can choose; `fallback` is for when the ends of changelogs are unknown."""
MOST_TAGS, LONGEST_TAG_NAME, LONGEST_TAG = 5, 20, 30
MOST = {"num_standby_replicas": 2**31 - 1, "max_warmup_replicas": 2**31 - 1}
LEAST = {"max_warmup_replicas": 1, "probing_rebalance_interval_ms": 60_000}


class Rule(NamedTuple):
    """What a value must be, in words that follow "must"."""

    holds: Callable[[Any], bool]
    must: str


def _whole(name: str) -> Rule:
    least, most = LEAST.get(name, 0), MOST.get(name, 2**63 - 1)
    return Rule(lambda value: type(value) is int and least <= value <= most, f"be a whole number from {least} to {most}")


def _is_text(value: object, longest: int = 1_000) -> bool:
    """Whether it can be told to others."""
    return isinstance(value, str) and len(value) <= longest and value.isprintable()


def _are_tags(value: object) -> bool:
    return isinstance(value, Mapping) and all(
        _is_text(name, LONGEST_TAG_NAME) and _is_text(tag, LONGEST_TAG) for name, tag in value.items()
    )


RULES = {
    "process_id": Rule(lambda value: value is None or (isinstance(value, bytes) and len(value) == 16), "be 16 bytes"),
    "application_server": Rule(_is_text, 'be "host:port"'),
    "client_tags": Rule(
        lambda value: _are_tags(value) and len(value) <= MOST_TAGS,
        f"map at most {MOST_TAGS} names of at most {LONGEST_TAG_NAME} letters to texts of at most {LONGEST_TAG}",
    ),
    "upgrade_from": Rule(lambda value: value is None or _is_text(value), 'name a release, such as "3.9"'),
    "release": Rule(_is_text, 'name a release, such as "4.3"'),
    "task_assignor": Rule(lambda value: value in CHOICE, f"be one of {', '.join(CHOICE)}"),
    "rack_aware_assignment_tags": Rule(
        lambda value: isinstance(value, list | tuple) and all(_is_text(name) for name in value), "be a list of names of tags"
    ),
    "on_tasks": Rule(lambda value: value is None or callable(value), "be a function of a TaskShare"),
    **{
        name: _whole(name)
        for name in ("num_standby_replicas", "acceptable_recovery_lag", "max_warmup_replicas", "probing_rebalance_interval_ms")
    },
}


def streams_options(options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Those of STREAMS with their values, and the others as they are; ValueError, one sentence, for one that cannot be meant."""
    for name in DECIDED:
        if name in options:
            raise ValueError(f"{name} cannot be chosen: the members of a Streams group agree on it by themselves")
    if "topics" in options:
        raise ValueError("topics cannot be chosen: a Streams group reads those of its topology")
    check_names(options, (*STREAMS, *FREE), has_tasks=True)
    chosen = {name: options.get(name, default) for name, default in STREAMS.items()}
    for name, value in chosen.items():
        if not RULES[name].holds(value):
            raise ValueError(f"{name} must {RULES[name].must}, not {value!r}")
    for name in chosen["rack_aware_assignment_tags"]:
        if name not in chosen["client_tags"]:
            raise ValueError(f"rack_aware_assignment_tags names {name!r}, which is not in client_tags")
    return chosen, {name: value for name, value in options.items() if name not in STREAMS}
