"""The options of `apportion.StreamsConsumer`, with Kafka Streams' names and bounds."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Annotated, Any

from apportion.client.options import AUTO_OFFSET_RESET, MemberOptions, Reset, check_names
from apportion.client.security_options import SecurityOptions
from apportion.member.settings import (
    GROUP_PROTOCOL,
    HEARTBEAT_INTERVAL_MS,
    METADATA_MAX_AGE_MS,
    SESSION_TIMEOUT_MS,
)
from apportion.member.streams.assignor import TaskShare
from apportion.settings import Setting, ValueCheck, declared, fault_or_none
from apportion.streams.metadata.releases import NEWEST_RELEASE
from apportion.streams.settings import (
    ACCEPTABLE_RECOVERY_LAG,
    MAX_WARMUP_REPLICAS,
    NUM_STANDBY_REPLICAS,
    PROBING_REBALANCE_INTERVAL_MS,
    TASK_ASSIGNOR,
)

MOST_TAGS, LONGEST_TAG_NAME, LONGEST_TAG = 5, 20, 30


def _is_text(value: object, longest: int = 1_000) -> bool:
    """Return whether the value is a printable text that a subscription can carry."""
    return isinstance(value, str) and len(value) <= longest and value.isprintable()


def _are_texts(value: object) -> bool:
    return isinstance(value, list | tuple) and all(map(_is_text, value))


def _are_tags(value: object) -> bool:
    return (
        isinstance(value, Mapping)
        and all(
            _is_text(name, LONGEST_TAG_NAME) and _is_text(tag, LONGEST_TAG)
            for name, tag in value.items()
        )
        and len(value) <= MOST_TAGS
    )


class StreamsMemberOptions(MemberOptions, SecurityOptions, total=False):
    """The options of every member, and of a classic group's."""

    session_timeout_ms: Annotated[int, SESSION_TIMEOUT_MS]
    heartbeat_interval_ms: Annotated[int, HEARTBEAT_INTERVAL_MS]
    metadata_max_age_ms: Annotated[int, METADATA_MAX_AGE_MS]


class StreamsOptions(StreamsMemberOptions, total=False):
    """The options of `apportion.StreamsConsumer`: its member's, and those of Kafka Streams."""

    group_protocol: Annotated[
        str,
        Setting(
            "classic (as Kafka Streams), or consumer (KIP-848: apportion's broker alone).",
            "classic",
            choices=GROUP_PROTOCOL.choices,
        ),
    ]
    # Kafka Streams' default: its tasks read their topics from the beginning.
    auto_offset_reset: Annotated[Reset, replace(AUTO_OFFSET_RESET, default="earliest")]
    process_id: Annotated[
        bytes | None,
        Setting(
            "The 16 bytes that name this process to the group.",
            default_words="drawn at random",
            check=ValueCheck(
                lambda value: isinstance(value, bytes) and len(value) == 16, "be 16 bytes"
            ),
        ),
    ]
    application_server: Annotated[
        str,
        Setting(
            "host:port where other instances reach this one (interactive queries).",
            "",
            check=ValueCheck(_is_text, 'be "host:port"'),
        ),
    ]
    client_tags: Annotated[
        Mapping[str, str],
        Setting(
            "Tags of this process, such as its zone, for standby tasks (KIP-708).",
            MappingProxyType({}),
            default_words="none",
            check=ValueCheck(
                _are_tags,
                f"map at most {MOST_TAGS} names of at most {LONGEST_TAG_NAME} letters to texts of "
                f"at most {LONGEST_TAG}",
            ),
        ),
    ]
    upgrade_from: Annotated[
        str | None,
        Setting(
            "The oldest release among the other instances during a rolling upgrade, such as 3.9.",
            default_words="none",
            check=ValueCheck(_is_text, 'name a release, such as "3.9"'),
        ),
    ]
    release: Annotated[
        str,
        Setting(
            "The release of Kafka Streams whose metadata version this process speaks.",
            NEWEST_RELEASE,
            check=ValueCheck(_is_text, f'name a release, such as "{NEWEST_RELEASE}"'),
        ),
    ]
    task_assignor: Annotated[str, TASK_ASSIGNOR]
    num_standby_replicas: Annotated[int, NUM_STANDBY_REPLICAS]
    acceptable_recovery_lag: Annotated[int, ACCEPTABLE_RECOVERY_LAG]
    max_warmup_replicas: Annotated[int, MAX_WARMUP_REPLICAS]
    probing_rebalance_interval_ms: Annotated[int, PROBING_REBALANCE_INTERVAL_MS]
    rack_aware_assignment_tags: Annotated[
        Sequence[str],
        Setting(
            "Client tags by which standby tasks are spread over the instances (KIP-708).",
            (),
            default_words="none",
            check=ValueCheck(_are_texts, "be a list of names of tags"),
        ),
    ]
    on_tasks: Annotated[
        Callable[[TaskShare], object] | None,
        Setting(
            "Called in poll with a TaskShare when tasks came or went.",
            default_words="none",
            check=ValueCheck(callable, "be a function of a TaskShare"),
        ),
    ]


SHARED = tuple(declared(StreamsMemberOptions))
"""Options that a StreamsConsumer has in common with a Consumer."""
STREAMS: dict[str, Any] = {
    name: setting.default
    for name, setting in declared(StreamsOptions).items()
    if name not in SHARED
}
"""Each option of Kafka Streams with its default."""
GROUP_DECIDES = (
    "partition_assignment_strategy",
    "group_remote_assignor",
    "group_local_assignors",
)
"""Options of a Consumer on which the members of a Streams group agree by themselves."""
PROBING_ONLY = ("release", "upgrade_from")
"""Options of version probing, which only members of a classic group do."""


def streams_options(options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return Kafka Streams' options with defaults filled in, and the others as they are.

    Raises ValueError, one sentence, for an option that cannot be chosen or a wrong value.
    """
    for name in GROUP_DECIDES:
        if name in options:
            raise ValueError(
                f"{name} cannot be chosen: the members of a Streams group agree on it by themselves"
            )
    if "topics" in options:
        raise ValueError("topics cannot be chosen: a Streams group reads those of its topology")
    check_names(options, (*STREAMS, *SHARED), has_tasks=True)
    chosen = {name: options.get(name, default) for name, default in STREAMS.items()}
    for name in PROBING_ONLY:
        if chosen["group_protocol"] == "consumer" and name in options:
            raise ValueError(
                f"{name} is for group_protocol='classic'; with 'consumer' the broker finds the "
                "version that all instances support"
            )
    for name, value in chosen.items():
        if (fault := fault_or_none(declared(StreamsOptions)[name], value)) is not None:
            raise ValueError(f"{name} must {fault}, not {value!r}")
    for name in chosen["rack_aware_assignment_tags"]:
        if name not in chosen["client_tags"]:
            raise ValueError(
                f"rack_aware_assignment_tags names {name!r}, which is not in client_tags"
            )
    return chosen, {name: value for name, value in options.items() if name not in STREAMS}
