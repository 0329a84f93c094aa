"""The options of `apportion.Consumer`: declarations, and checks of values and combinations.

The TypedDicts are the keyword arguments as a type checker knows them; `settings.declared` reads the
same lines at run time.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from numbers import Integral
from typing import Annotated, Any, Literal, TypedDict

from apportion.client.foreign_options import why_foreign_or_none
from apportion.client.security_options import SecurityOptions
from apportion.member.assignors.interface import Assignor
from apportion.member.assignors.strategy import DEFAULT, local_assignors, strategy
from apportion.member.settings import (
    CLIENT_ID,
    GROUP_PROTOCOL,
    HEARTBEAT_INTERVAL_MS,
    INSTANCE_ID,
    MAX_POLL_INTERVAL_MS,
    METADATA_MAX_AGE_MS,
    SESSION_TIMEOUT_MS,
    heartbeat_fault_or_none,
)
from apportion.settings import (
    MAX_INT32,
    MAX_INT64,
    Setting,
    ValueCheck,
    declared,
    fault_or_none,
    nearest_or_none,
)
from apportion.topics import TopicPartition, is_topic_name
from apportion.wire.messages.list_offsets import EARLIEST, LATEST

RESETS = {"earliest": EARLIEST, "latest": LATEST, "error": None}
CONSUMER, CLASSIC = "group_protocol='consumer'", "group_protocol='classic'"
AUTO_OFFSET_RESET = Setting(
    "Where a partition starts for which the group has no committed offset. With latest, one that "
    "is added while the consumer is subscribed starts at its earliest record.",
    "latest",
    choices=tuple(RESETS),
)
IS_CALLBACK = ValueCheck(callable, "be a function of the partitions")
Reset = Literal["earliest", "latest", "error"]
RebalanceCallback = Callable[[tuple[TopicPartition, ...]], object]


class MemberOptions(TypedDict, total=False):
    """Options that every member has, be it a Consumer or a StreamsConsumer."""

    client_id: Annotated[str, CLIENT_ID]
    instance_id: Annotated[str | None, INSTANCE_ID]
    client_rack: Annotated[
        str | None,
        Setting(
            "The rack of this consumer; the classic range assignor prefers partitions "
            "with a replica there.",
            default_words="none",
        ),
    ]
    auto_commit: Annotated[
        bool,
        Setting(
            "Commit delivered records every auto_commit_interval_ms, when partitions are "
            "revoked, and on close.",
            False,
        ),
    ]
    auto_commit_interval_ms: Annotated[
        int,
        Setting("The time between two commits.", 5_000, at_least=1, at_most=MAX_INT32).only_with(
            "auto_commit"
        ),
    ]
    max_poll_interval_ms: Annotated[int, MAX_POLL_INTERVAL_MS]
    max_poll_records: Annotated[
        int, Setting("The most records that one poll returns.", 500, at_least=1, at_most=MAX_INT32)
    ]
    on_assigned: Annotated[
        RebalanceCallback | None,
        Setting(
            "Called in poll with the partitions that were assigned.",
            default_words="none",
            check=IS_CALLBACK,
        ),
    ]
    on_revoked: Annotated[
        RebalanceCallback | None,
        Setting(
            "Called in poll with the partitions that are revoked; commit here.",
            default_words="none",
            check=IS_CALLBACK,
        ),
    ]
    on_lost: Annotated[
        RebalanceCallback | None,
        Setting(
            "Called in poll with the partitions that were lost: other members may own them "
            "already, so it is too late to commit.",
            default_words="none",
            check=IS_CALLBACK,
        ),
    ]


class ConsumerOptions(MemberOptions, SecurityOptions, total=False):
    """The options of `apportion.Consumer`."""

    auto_offset_reset: Annotated[Reset, AUTO_OFFSET_RESET]
    group_protocol: Annotated[Literal["consumer", "classic"], GROUP_PROTOCOL]
    group_remote_assignor: Annotated[
        str | None,
        Setting(
            "The broker's assignor: uniform, range, or one of your own.",
            default_words="the group's",
        ).only_with(CONSUMER),
    ]
    group_local_assignors: Annotated[
        str | Assignor | Sequence[str | Assignor],
        Setting(
            "Assignors that this consumer can run, in order of preference: those of "
            "partition_assignment_strategy, or your own; the group uses one that all members "
            "offer, or else the broker's. No Apache Kafka has them",
            (),
            default_words="none",
        ).only_with(CONSUMER),
    ]
    partition_assignment_strategy: Annotated[
        str | Assignor | Sequence[str | Assignor],
        Setting(
            "Assignors in order of preference: range, roundrobin, sticky, "
            "cooperative-sticky, lag-weighted, bytes-weighted, or an Assignor of your own; the "
            "group uses one that all members support",
            DEFAULT,
        ).only_with(CLASSIC),
    ]
    session_timeout_ms: Annotated[int, SESSION_TIMEOUT_MS.only_with(CLASSIC)]
    heartbeat_interval_ms: Annotated[int, HEARTBEAT_INTERVAL_MS.only_with(CLASSIC)]
    metadata_max_age_ms: Annotated[int, METADATA_MAX_AGE_MS.only_with(CLASSIC)]


OPTIONS: dict[str, Any] = {
    name: setting.default for name, setting in declared(ConsumerOptions).items()
}
"""Each option with its default."""
ONE_PROTOCOL_ONLY = {  # protocol -> option that it alone has -> what the other one has instead
    "consumer": {
        "group_remote_assignor": "the members assign: use partition_assignment_strategy",
        "group_local_assignors": "the members assign: use partition_assignment_strategy",
    },
    "classic": {
        "partition_assignment_strategy": (
            "the broker assigns: use group_remote_assignor, or group_local_assignors where the "
            "broker is apportion's"
        ),
        "session_timeout_ms": "the broker decides: set group.consumer.session.timeout.ms there",
        "heartbeat_interval_ms": (
            "the broker decides: set group.consumer.heartbeat.interval.ms there"
        ),
        "metadata_max_age_ms": "the broker looks after the topics",
    },
}
IDS = {  # option that is an id -> what it identifies, for the error
    "client_id": "the name that brokers log",
    "instance_id": "the name that a static member keeps",
    "client_rack": "the rack that this consumer is in",
    "group_remote_assignor": "an assignor that the broker has, such as 'uniform' or 'range'",
}


def checked(group_id: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return every option with its value, for `Consumer`.

    Raises ValueError for an unknown option, a wrong value or a combination that cannot work.
    """
    if not isinstance(group_id, str) or not group_id.strip():
        raise ValueError(
            f"group_id must be a name, not {group_id!r}: a consumer is always a member of a group"
        )
    check_names(options, OPTIONS)
    chosen = {**OPTIONS, **options}
    for name, meaning in IDS.items():
        _check_id(name, meaning, chosen[name])
    for name, setting in declared(ConsumerOptions).items():
        if setting.choices and name in declared(SecurityOptions):
            continue  # `client_security` takes these words in any case
        if (fault := fault_or_none(setting, chosen[name])) is not None:
            raise ValueError(f"{name} must {fault}, not {chosen[name]!r}")
    # Refused and not ignored: a user who sets an interval believes that offsets are committed.
    if "auto_commit_interval_ms" in options and not chosen["auto_commit"]:
        raise ValueError(
            "auto_commit_interval_ms says nothing while auto_commit is off; set "
            "auto_commit=True or leave it out"
        )
    _check_protocol(options, chosen)
    return chosen


def check_names(options: Iterable[str], known: Iterable[str], *, has_tasks: bool = False) -> None:
    """Raise ValueError for an unknown option.

    The text says why there is none where other clients have it; else it names the nearest known
    option, or all. has_tasks: a StreamsConsumer is checked.
    """
    names = tuple(known)
    for name in options:
        if name not in names:
            if (why := why_foreign_or_none(name, has_tasks=has_tasks)) is not None:
                raise ValueError(f"option {name!r} cannot be used: {why}")
            near = nearest_or_none(name, names)
            hint = f"did you mean {near!r}?" if near else f"options are {', '.join(names)}"
            raise ValueError(f"unknown option {name!r}: {hint}")


def _check_id(name: str, meaning: str, value: object) -> None:
    """Refuse an id that is no text or is empty: the group's, the client's or the instance's."""
    if value is None and OPTIONS[name] is None:
        return
    if not isinstance(value, str) or not value.strip():
        raise ValueError(
            f"{name} must be a text that is not empty ({meaning}), not {value!r}; leave "
            "it out if there is none"
        )


def _check_protocol(options: Mapping[str, Any], chosen: Mapping[str, Any]) -> None:
    """Refuse options of the other group protocol, and a heartbeat that is too slow.

    Raises ValueError, also for an interval that `heartbeat_fault_or_none` refuses.
    """
    protocol = chosen["group_protocol"]
    for other, own in ONE_PROTOCOL_ONLY.items():
        for name, instead in own.items():
            if other != protocol and name in options:
                raise ValueError(
                    f"{name} is for group_protocol={other!r}; with {protocol!r} {instead}"
                )
    local, remote = chosen["group_local_assignors"], chosen["group_remote_assignor"]
    has_local = bool(local) or not isinstance(local, tuple | list)
    if has_local and remote is not None:
        raise ValueError(
            "group_remote_assignor and group_local_assignors exclude each other: the broker "
            "assigns, or a member does; leave one out"
        )
    # With KIP-848 the broker decides the heartbeat interval.
    if protocol == "classic":
        names = ("heartbeat_interval_ms", "session_timeout_ms", "max_poll_interval_ms")
        fault = heartbeat_fault_or_none(*((name, chosen[name]) for name in names))
        if fault is not None:
            raise ValueError(fault)


def membership_settings(chosen: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a `GroupMembership` for these options, which are checked.

    Raises ValueError for assignors that a group cannot vote for.
    """
    settings = {
        "protocol": chosen["group_protocol"],
        "instance_id": chosen["instance_id"],
        "rack_id": chosen["client_rack"],
        "rebalance_timeout_ms": chosen["max_poll_interval_ms"],
        # As in Kafka's consumer, max.poll.interval.ms is the rebalance timeout as well: a
        # revocation needs a poll.
        "poll_limit_ms": chosen["max_poll_interval_ms"],
    }
    if chosen["group_protocol"] == "consumer":
        return settings | {
            "server_assignor": chosen["group_remote_assignor"],
            "assignors": local_assignors(chosen["group_local_assignors"]),
        }
    return settings | {
        "assignors": strategy(chosen["partition_assignment_strategy"]),
        "session_timeout_ms": chosen["session_timeout_ms"],
        "heartbeat_interval_ms": chosen["heartbeat_interval_ms"],
        "metadata_interval_ms": chosen["metadata_max_age_ms"],
    }


def topic_names(topics: object, *, may_be_none: bool = False) -> tuple[str, ...]:
    """Return the names to subscribe to. Raises ValueError for an impossible name.

    may_be_none: a pattern is there as well; without one no name is an error, too.
    """
    names = (
        (topics,)
        if isinstance(topics, str)
        else tuple(topics)
        if isinstance(topics, Iterable)
        else ()
    )
    if may_be_none and not names and (topics is None or isinstance(topics, Iterable)):
        return ()
    if not names or not all(isinstance(name, str) and name for name in names):
        raise ValueError(
            f"topics must be one or more names, not {topics!r}; to stop reading, close the consumer"
        )
    for name in names:
        if not is_topic_name(name):
            raise ValueError(
                f"{name!r} cannot be a topic: give a list of names of letters, digits, "
                "'.', '_' and '-', or a regular expression as subscribe(pattern=...)"
            )
    return names


def checked_pattern(pattern: object, group_protocol: str) -> str:
    """Return the pattern of a subscription; raise ValueError if it cannot be used.

    Whether it is a right expression is for the broker to say, which resolves it.
    """
    if not isinstance(pattern, str) or not pattern:
        raise ValueError(
            f"pattern must be a text, a regular expression of RE2 such as 'flights-.*', "
            f"not {pattern!r}"
        )
    if group_protocol != "consumer":
        raise ValueError(
            "pattern is for group_protocol='consumer', where the broker resolves it; with "
            f"{group_protocol!r} name the topics"
        )
    return pattern


def checked_partition(partition: Any, argument: str) -> TopicPartition:
    """Return a partition that an argument of this name has; raise ValueError for anything else."""
    match partition:
        case (str(topic), int(number)):
            return TopicPartition(topic, number)
        case _:
            raise ValueError(f"{argument}: {partition!r} is no TopicPartition")


def checked_partitions(partitions: Any) -> tuple[TopicPartition, ...]:
    """Return the partitions of an argument of that name; raise ValueError for anything else."""
    if not isinstance(partitions, Iterable):
        raise ValueError(
            f"partitions must be a list of TopicPartition(topic, number), not {partitions!r}"
        )
    return tuple(checked_partition(each, "partitions") for each in partitions)


def checked_timeout(timeout_ms: Any) -> int:
    """Return a timeout of a call; raise ValueError for what is no number."""
    try:
        rounded: int = round(timeout_ms)
        return rounded
    except (TypeError, ValueError, OverflowError):
        raise ValueError(
            f"timeout_ms must be a number of milliseconds, not {timeout_ms!r}"
        ) from None


def checked_offsets(offsets: Mapping[Any, Any]) -> dict[TopicPartition, int]:
    """Return offsets to commit by their partitions.

    Raises ValueError for what is no offset: a broker would take -1 for "no offset is committed".
    """
    if not isinstance(offsets, Mapping):
        raise ValueError(f"offsets must map partitions to offsets, not be {offsets!r}")
    by_partition = {}
    for partition, offset in offsets.items():
        topic, number = checked_partition(partition, "offsets")
        # Integral and not int: programs compute offsets with NumPy. A bool is never meant as one.
        is_whole = isinstance(offset, Integral) and not isinstance(offset, bool)
        if not is_whole or not 0 <= offset <= MAX_INT64:
            raise ValueError(
                f"the offset of {topic}-{number} must be a whole number from 0 to {MAX_INT64}, "
                f"not {offset!r}"
            )
        by_partition[TopicPartition(topic, number)] = int(offset)
    return by_partition
