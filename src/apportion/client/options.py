"""The options of `apportion.Consumer`: what there is, what it is when it is not given, and what makes no sense together."""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any

from apportion.client.cluster import EARLIEST, LATEST
from apportion.client.foreign_options import why_foreign_or_none
from apportion.member.assignors.strategy import DEFAULT, strategy
from apportion.topics import is_topic_name

RESETS = {"earliest": EARLIEST, "latest": LATEST, "error": None}
PROTOCOLS = ("consumer", "classic")
OPTIONS = {  # option -> default
    "client_id": "apportion",
    "instance_id": None,
    "client_rack": None,
    "auto_offset_reset": "latest",
    "auto_commit": False,
    "auto_commit_interval_ms": 5_000,
    "max_poll_interval_ms": 300_000,
    "max_poll_records": 500,
    "group_protocol": "consumer",
    "server_assignor": None,
    "partition_assignment_strategy": DEFAULT,
    "session_timeout_ms": 45_000,
    "heartbeat_interval_ms": 3_000,
    "metadata_max_age_ms": 300_000,
    "on_assigned": None,
    "on_revoked": None,
    "on_lost": None,
}
ONLY = {  # protocol -> option that it alone has -> what the other one has instead
    "consumer": {"server_assignor": "the members assign: use partition_assignment_strategy"},
    "classic": {
        "partition_assignment_strategy": "the broker assigns: use server_assignor",
        "session_timeout_ms": "the broker decides: set group.consumer.session.timeout.ms there",
        "heartbeat_interval_ms": "the broker decides: set group.consumer.heartbeat.interval.ms there",
        "metadata_max_age_ms": "the broker looks after the topics",
    },
}
POSITIVE = (
    "auto_commit_interval_ms",
    "max_poll_interval_ms",
    "max_poll_records",
    "session_timeout_ms",
    "heartbeat_interval_ms",
    "metadata_max_age_ms",
)
MOST = 2**31 - 1
IDS = {  # option that is a name -> of what
    "client_id": "the name that brokers log",
    "instance_id": "the name that a static member keeps",
    "client_rack": "the rack that this consumer is in",
    "server_assignor": "an assignor that the broker has, such as 'uniform' or 'range'",
}


def checked(group_id: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Every option with its value; ValueError, one sentence, for one that is unknown or cannot be meant."""
    if not isinstance(group_id, str) or not group_id.strip():
        raise ValueError(f"group_id must be a name, not {group_id!r}: a consumer is always a member of a group")
    check_names(options, OPTIONS)
    chosen = {**OPTIONS, **options}
    for name, meaning in IDS.items():
        _check_id(name, meaning, chosen[name])
    if chosen["auto_offset_reset"] not in tuple(RESETS):
        raise ValueError(f"auto_offset_reset must be one of {', '.join(RESETS)}, not {chosen['auto_offset_reset']!r}")
    if not isinstance(chosen["auto_commit"], bool):
        raise ValueError(f"auto_commit must be True or False, not {chosen['auto_commit']!r}")
    for name in POSITIVE:
        if type(chosen[name]) is not int or chosen[name] < 1:
            raise ValueError(f"{name} must be a positive whole number, not {chosen[name]!r}")
        if chosen[name] > MOST:
            raise ValueError(f"{name} must be at most {MOST}, the greatest number that a request can say, not {chosen[name]!r}")
    for name in ("on_assigned", "on_revoked", "on_lost"):
        if chosen[name] is not None and not callable(chosen[name]):
            raise ValueError(f"{name} must be a function of the partitions, not {chosen[name]!r}")
    if "auto_commit_interval_ms" in options and not chosen["auto_commit"]:
        raise ValueError("auto_commit_interval_ms says nothing while auto_commit is off; set auto_commit=True or leave it out")
    _check_protocol(options, chosen)
    return chosen


def check_names(options: Iterable[str], known: Iterable[str], *, has_tasks: bool = False) -> None:
    """Raise ValueError for an option that there is not: why not, where other clients have it; else it names the nearest, or all."""
    names = tuple(known)
    for name in options:
        if name not in names:
            if (why := why_foreign_or_none(name, has_tasks=has_tasks)) is not None:
                raise ValueError(f"option {name!r} cannot be used: {why}")
            near = get_close_matches(name, names, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"options are {', '.join(names)}"
            raise ValueError(f"unknown option {name!r}: {hint}")


def _check_id(name: str, meaning: str, value: object) -> None:
    if value is None and OPTIONS[name] is None:
        return
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{name} must be a text that is not empty ({meaning}), not {value!r}; leave it out if there is none")


def _check_protocol(options: Mapping[str, Any], chosen: Mapping[str, Any]) -> None:
    protocol = chosen["group_protocol"]
    if protocol not in PROTOCOLS:
        raise ValueError(f"group_protocol must be 'consumer' (KIP-848) or 'classic', not {protocol!r}")
    for other, own in ONLY.items():
        for name, instead in own.items():
            if other != protocol and name in options:
                raise ValueError(f"{name} is for group_protocol={other!r}; with {protocol!r} {instead}")
    if chosen["heartbeat_interval_ms"] >= chosen["session_timeout_ms"]:
        raise ValueError(
            f"heartbeat_interval_ms ({chosen['heartbeat_interval_ms']}) must be below session_timeout_ms "
            f"({chosen['session_timeout_ms']}), or the session ends between two heartbeats; a third of it is usual"
        )


def membership(chosen: Mapping[str, Any]) -> dict[str, Any]:
    """What these options, which are checked, mean for the session. ValueError for assignors that cannot be voted for."""
    settings = {
        "protocol": chosen["group_protocol"],
        "instance_id": chosen["instance_id"],
        "rack_id": chosen["client_rack"],
        "rebalance_timeout_ms": chosen["max_poll_interval_ms"],
        "poll_limit_ms": chosen["max_poll_interval_ms"],
    }
    if chosen["group_protocol"] == "consumer":
        return settings | {"server_assignor": chosen["server_assignor"]}
    return settings | {
        "assignors": strategy(chosen["partition_assignment_strategy"]),
        "session_timeout_ms": chosen["session_timeout_ms"],
        "heartbeat_interval_ms": chosen["heartbeat_interval_ms"],
        "metadata_interval_ms": chosen["metadata_max_age_ms"],
    }


def topic_names(topics: Iterable[str]) -> tuple[str, ...]:
    """The names to subscribe to; ValueError for none, and for what cannot be a name."""
    names = (topics,) if isinstance(topics, str) else tuple(topics) if isinstance(topics, Iterable) else ()
    if not names or not all(isinstance(name, str) and name for name in names):
        raise ValueError(f"topics must be one or more names, not {topics!r}; to stop reading, close the consumer")
    for name in names:
        if not is_topic_name(name):
            raise ValueError(f"{name!r} cannot be a topic: give a list of names of letters, digits, '.', '_' and '-'")
    return names
