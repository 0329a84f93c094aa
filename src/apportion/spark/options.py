"""The source's options, read once and refused early: every fault is one sentence that names the
option and the remedy.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from apportion.member.assignors.strategy import strategy
from apportion.member.batch.plan import EARLIEST, LATEST, StartingOffsets
from apportion.settings import Setting, nearest_or_none

PLAIN = "only plain connections are supported yet"
REFUSED = {  # option -> why it cannot be used with a real group member
    "assign": "the group decides which partitions this query reads; use subscribe",
    "subscribePattern": (
        "subscriptions by pattern are not supported yet; name the topics in subscribe"
    ),
    "kafka.enable.auto.commit": (
        "the source commits a batch when Spark has committed it; drop the option"
    ),
    "kafka.auto.offset.reset": (
        "use startingOffsets, which applies where the group has no committed offset"
    ),
    "kafka.key.deserializer": (
        "keys are bytes; decode them with Spark functions and drop the option"
    ),
    "kafka.value.deserializer": (
        "values are bytes; decode them with Spark functions and drop the option"
    ),
    "kafka.key.serializer": "this is a source; drop the option",
    "kafka.value.serializer": "this is a source; drop the option",
    "kafka.interceptor.classes": "interceptors do not exist here; drop the option",
    "groupIdPrefix": "the group is real and has one name; use kafka.group.id",
    "startingTimestamp": "not supported yet; use startingOffsets",
    "startingOffsetsByTimestamp": "not supported yet; use startingOffsets",
    "startingOffsetsByTimestampStrategy": "not supported yet; use startingOffsets",
    "endingOffsets": (
        "it is for batch reads; a stream with trigger(availableNow=True) reads up to now"
    ),
    "endingTimestamp": (
        "it is for batch reads; a stream with trigger(availableNow=True) reads up to now"
    ),
    "endingOffsetsByTimestamp": (
        "it is for batch reads; a stream with trigger(availableNow=True) reads up to now"
    ),
    "minOffsetsPerTrigger": "not supported yet; use the query's trigger interval",
    "maxTriggerDelay": "not supported yet; use the query's trigger interval",
    "minPartitions": (
        "not supported yet; a batch is cut into as many tasks as there are cores, more where "
        "there is much to read"
    ),
    "kafka.partition.assignment.strategy": (
        "the classic protocol is spoken here with cooperative-sticky alone, so that queries "
        "keep what stays with them; with KIP-848 the broker assigns, as "
        "kafka.group.remote.assignor says"
    ),
    "kafka.security.protocol": PLAIN,
}
SPELLED = {name.lower(): name for name in REFUSED}
SECURITY = ("kafka.ssl.", "kafka.sasl.")  # how options of connections that are not plain begin
ONLY = {  # protocol -> option that it alone has -> what the other one has instead
    "consumer": {
        "kafka.group.remote.assignor": "the members assign, by cooperative-sticky; drop the option"
    },
    "classic": {
        "kafka.session.timeout.ms": (
            "the broker decides: set group.consumer.session.timeout.ms there"
        ),
        "kafka.heartbeat.interval.ms": (
            "the broker decides: set group.consumer.heartbeat.interval.ms there"
        ),
        "kafka.metadata.max.age.ms": "the broker looks after the topics; drop the option",
    },
}
OPTIONS = (
    Setting(
        "Brokers as host:port, with commas between.",
        name="kafka.bootstrap.servers",
        default_words="required",
    ),
    Setting(
        "The group that the query joins as a member.",
        name="kafka.group.id",
        default_words="required",
    ),
    Setting("Topics, with commas between.", name="subscribe", default_words="required"),
    Setting(
        "Where a partition starts for which the group has no offset: earliest, latest, or "
        "JSON by topic and partition.",
        "latest",
        name="startingOffsets",
    ),
    Setting(
        "The most offsets in one batch, shared by lag.",
        name="maxOffsetsPerTrigger",
        default_words="none",
        at_least=1,
    ),
    Setting(
        "Whether deleted records or a deleted topic end the query.", True, name="failOnDataLoss"
    ),
    Setting("Whether rows have the column headers.", False, name="includeHeaders"),
    Setting(
        "Static membership: a restart within the session keeps its partitions (KIP-345).",
        name="kafka.group.instance.id",
        default_words="none",
    ),
    Setting(
        "consumer (KIP-848), or classic for brokers that do not have it.",
        "consumer",
        name="kafka.group.protocol",
        choices=("consumer", "classic"),
    ),
    Setting(
        "The broker's assignor, uniform or range; with consumer alone.",
        name="kafka.group.remote.assignor",
        default_words="the broker's",
    ),
    Setting(
        "How long a member may be silent; with classic alone.",
        45_000,
        name="kafka.session.timeout.ms",
        at_least=1,
    ),
    Setting(
        "The time between two heartbeats; with classic alone.",
        3_000,
        name="kafka.heartbeat.interval.ms",
        at_least=1,
    ),
    Setting(
        "How late the group's leader sees new partitions; with classic alone.",
        300_000,
        name="kafka.metadata.max.age.ms",
        at_least=1,
    ),
    Setting(
        "The longest batch; a query that takes longer leaves the group until it is back.",
        300_000,
        name="kafka.max.poll.interval.ms",
        at_least=1,
    ),
    Setting(
        "The name that brokers log and tools show.",
        name="kafka.client.id",
        default_words="apportion-spark-<group>",
    ),
    Setting("How long one request may take.", 30_000, name="kafka.request.timeout.ms", at_least=1),
)
"""Every option of the source, with its default."""
DEFAULTS = {option.name: option.default for option in OPTIONS}
KNOWN = {option.name.lower(): option.name for option in OPTIONS}
"""Option in lower case -> as it is written."""


class OptionError(ValueError):
    """An option is missing, unknown or contradicts another one; the text says which, and what to
    do.
    """


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """Options of `spark.readStream.format("apportion")`, checked."""

    bootstrap: str
    group: str
    topics: tuple[str, ...]
    instance_id: str | None
    classic: bool
    assignor: str | None
    session_timeout_ms: int
    heartbeat_interval_ms: int
    metadata_max_age_ms: int
    client_id: str
    rebalance_timeout_ms: int
    request_timeout_ms: int
    starting: StartingOffsets
    max_offsets: int | None
    fail_on_data_loss: bool
    include_headers: bool

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> "SourceOptions":
        """The options as a value. Raises OptionError for the first fault, in the order in which a
        person would mend them.
        """
        options = {name.lower(): value for name, value in given.items()}
        for name in options:
            if name in SPELLED:
                raise OptionError(
                    f"option {SPELLED[name]} cannot be used: {REFUSED[SPELLED[name]]}."
                )
            if name.startswith(SECURITY):
                raise OptionError(f"option {name} cannot be used: {PLAIN}.")
            if name not in KNOWN:
                _refuse_unknown(_as_written(name, given))
        classic = _protocol(options) == "classic"
        group = _required(
            options, "kafka.group.id", "the name of the consumer group that this query joins"
        )
        topics = _topics(
            _required(options, "subscribe", "the topics to read, with commas between them")
        )
        return cls(
            bootstrap=_bootstrap(
                _required(
                    options,
                    "kafka.bootstrap.servers",
                    "the brokers as host:port with commas between",
                )
            ),
            group=group,
            topics=topics,
            instance_id=options.get("kafka.group.instance.id") or None,
            classic=classic,
            assignor=options.get("kafka.group.remote.assignor") or None,
            session_timeout_ms=_milliseconds(options, "kafka.session.timeout.ms"),
            heartbeat_interval_ms=_milliseconds(options, "kafka.heartbeat.interval.ms"),
            metadata_max_age_ms=_milliseconds(options, "kafka.metadata.max.age.ms"),
            client_id=options.get("kafka.client.id") or f"apportion-spark-{group}",
            rebalance_timeout_ms=_milliseconds(options, "kafka.max.poll.interval.ms"),
            request_timeout_ms=_milliseconds(options, "kafka.request.timeout.ms"),
            starting=_starting(options.get("startingoffsets", DEFAULTS["startingOffsets"]), topics),
            max_offsets=_positive(options, "maxOffsetsPerTrigger"),
            fail_on_data_loss=_boolean(options, "failOnDataLoss"),
            include_headers=_boolean(options, "includeHeaders"),
        )

    def membership(self) -> dict[str, Any]:
        """The settings of the session."""
        settings: dict[str, Any] = {
            "instance_id": self.instance_id,
            "rebalance_timeout_ms": self.rebalance_timeout_ms,
            "poll_limit_ms": self.rebalance_timeout_ms,
        }
        if not self.classic:
            return settings | {"server_assignor": self.assignor}
        return settings | {
            "protocol": "classic",
            "assignors": strategy("cooperative-sticky"),
            "session_timeout_ms": self.session_timeout_ms,
            "heartbeat_interval_ms": self.heartbeat_interval_ms,
            "metadata_interval_ms": self.metadata_max_age_ms,
        }


def _as_written(name: str, given: Mapping[str, str]) -> str:
    return next((written for written in given if written.lower() == name), name)


def _refuse_unknown(name: str) -> NoReturn:
    near = nearest_or_none(name.lower(), KNOWN)
    hint = (
        f"did you mean {KNOWN[near]}?"
        if near
        else f"known are {', '.join(sorted(KNOWN.values()))}."
    )
    # Else who wrote startingOffset would take its capital letter for the mistake.
    lowered = (
        " (Spark hands names over in lower case)"
        if near and name != KNOWN[near] and name.islower()
        else ""
    )
    raise OptionError(f"option {name} is unknown{lowered}: {hint}")


def _required(options: Mapping[str, str], name: str, what: str) -> str:
    value = (options.get(name) or "").strip()
    if not value:
        raise OptionError(f'option {name} is missing: give {what}, as in .option("{name}", "...").')
    return value


def _protocol(options: Mapping[str, str]) -> str:
    protocol = (
        options.get("kafka.group.protocol", str(DEFAULTS["kafka.group.protocol"])).strip().lower()
    )
    if protocol not in ONLY:
        raise OptionError(
            f"option kafka.group.protocol is {protocol!r}: give consumer (KIP-848), or "
            "classic for brokers that do not have it."
        )
    for other, own in ONLY.items():
        for name, instead in own.items():
            if other != protocol and name in options:
                raise OptionError(
                    f"option {name} is for kafka.group.protocol={other}: with {protocol} {instead}."
                )
    return protocol


def _bootstrap(value: str) -> str:
    for address in value.split(","):
        host, colon, port = address.strip().rpartition(":")
        if not host or not colon or not port.isdigit() or not 0 < int(port) < 65536:
            raise OptionError(
                f"option kafka.bootstrap.servers holds {address.strip()!r}: write each "
                "broker as host:port."
            )
    return value


def _topics(value: str) -> tuple[str, ...]:
    names = [name.strip() for name in value.split(",")]
    if not all(names):
        raise OptionError(
            f"option subscribe holds an empty name in {value!r}: write topics with one "
            "comma between them."
        )
    return tuple(dict.fromkeys(names))


def _positive(options: Mapping[str, str], name: str) -> int | None:
    value = options.get(name.lower())
    if value is None:
        return None
    if not value.strip().isdigit() or int(value) == 0:
        raise OptionError(f"option {name} is {value!r}: give a whole number above 0.")
    return int(value)


def _milliseconds(options: Mapping[str, str], name: str) -> int:
    value = _positive(options, name)
    return int(DEFAULTS[name]) if value is None else value


def _boolean(options: Mapping[str, str], name: str) -> bool:
    value = options.get(name.lower(), str(DEFAULTS[name])).strip().lower()
    if value not in ("true", "false"):
        raise OptionError(f"option {name} is {value!r}: give true or false.")
    return value == "true"


def _starting(value: str, topics: tuple[str, ...]) -> StartingOffsets:
    word = value.strip().lower()
    if word in ("earliest", "latest"):
        return StartingOffsets(EARLIEST if word == "earliest" else LATEST)
    advice = (
        'give earliest, latest, or JSON such as {"flights":{"0":23,"1":-2}} (-2 earliest, -1 '
        "latest)"
    )
    try:
        told = json.loads(value)
        own = {
            (topic, int(partition)): int(offset)
            for topic, offsets in told.items()
            for partition, offset in offsets.items()
        }
    except (ValueError, AttributeError, TypeError):
        raise OptionError(f"option startingOffsets is {value!r}: {advice}.") from None
    for (topic, partition), offset in own.items():
        if topic not in topics:
            raise OptionError(
                f"option startingOffsets names topic {topic}, which subscribe does not: "
                "add it there or drop it here."
            )
        if offset < EARLIEST or partition < 0:
            raise OptionError(
                f"option startingOffsets gives {topic}-{partition} the offset {offset}: {advice}."
            )
    return StartingOffsets(EARLIEST, own)
