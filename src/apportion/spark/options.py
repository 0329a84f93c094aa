"""The source's options, read once and refused early: every fault is one sentence that names the option and the remedy."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, NoReturn

from apportion.member.assignors.strategy import strategy
from apportion.member.batch.plan import EARLIEST, LATEST, Starting

PLAIN = "only plain connections are supported yet"
REFUSED = {  # option -> why it cannot be used with a real group member
    "assign": "the group decides which partitions this query reads; use subscribe",
    "subscribePattern": "subscriptions by pattern are not supported yet; name the topics in subscribe",
    "kafka.enable.auto.commit": "the source commits a batch when Spark has committed it; drop the option",
    "kafka.auto.offset.reset": "use startingOffsets, which applies where the group has no committed offset",
    "kafka.key.deserializer": "keys are bytes; decode them with Spark functions and drop the option",
    "kafka.value.deserializer": "values are bytes; decode them with Spark functions and drop the option",
    "kafka.key.serializer": "this is a source; drop the option",
    "kafka.value.serializer": "this is a source; drop the option",
    "kafka.interceptor.classes": "interceptors do not exist here; drop the option",
    "groupIdPrefix": "the group is real and has one name; use kafka.group.id",
    "startingTimestamp": "not supported yet; use startingOffsets",
    "startingOffsetsByTimestamp": "not supported yet; use startingOffsets",
    "startingOffsetsByTimestampStrategy": "not supported yet; use startingOffsets",
    "endingOffsets": "it is for batch reads; a stream with trigger(availableNow=True) reads up to now",
    "endingTimestamp": "it is for batch reads; a stream with trigger(availableNow=True) reads up to now",
    "endingOffsetsByTimestamp": "it is for batch reads; a stream with trigger(availableNow=True) reads up to now",
    "minOffsetsPerTrigger": "not supported yet; use the query's trigger interval",
    "maxTriggerDelay": "not supported yet; use the query's trigger interval",
    "minPartitions": "not supported yet; a batch is cut into as many tasks as there are cores, more where there is much to read",
    "kafka.partition.assignment.strategy": "the classic protocol is spoken here with cooperative-sticky alone, so that queries "
    "keep what stays with them; with KIP-848 the broker assigns, as kafka.group.remote.assignor says",
    "kafka.security.protocol": PLAIN,
}
SPELLED = {name.lower(): name for name in REFUSED}
SECURITY = ("kafka.ssl.", "kafka.sasl.")  # how options of connections that are not plain begin
ONLY = {  # protocol -> option that it alone has -> what the other one has instead
    "consumer": {"kafka.group.remote.assignor": "the members assign, by cooperative-sticky; drop the option"},
    "classic": {
        "kafka.session.timeout.ms": "the broker decides: set group.consumer.session.timeout.ms there",
        "kafka.heartbeat.interval.ms": "the broker decides: set group.consumer.heartbeat.interval.ms there",
        "kafka.metadata.max.age.ms": "the broker looks after the topics; drop the option",
    },
}
KNOWN = {  # option in lower case -> as it is written
    name.lower(): name
    for name in (
        "kafka.bootstrap.servers",
        "kafka.group.id",
        "kafka.group.instance.id",
        "kafka.group.protocol",
        "kafka.group.remote.assignor",
        "kafka.session.timeout.ms",
        "kafka.heartbeat.interval.ms",
        "kafka.metadata.max.age.ms",
        "kafka.client.id",
        "kafka.max.poll.interval.ms",
        "kafka.request.timeout.ms",
        "subscribe",
        "startingOffsets",
        "maxOffsetsPerTrigger",
        "failOnDataLoss",
        "includeHeaders",
    )
}


class OptionError(ValueError):
    """An option is missing, unknown or contradicts another one; the text says which, and what to do."""


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
    starting: Starting
    max_offsets: int | None
    fail_on_data_loss: bool
    include_headers: bool

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> "SourceOptions":
        """The options as a value. Raises OptionError for the first fault, in the order in which a person would mend them."""
        options = {name.lower(): value for name, value in given.items()}
        for name in options:
            if name in SPELLED:
                raise OptionError(f"option {SPELLED[name]} cannot be used: {REFUSED[SPELLED[name]]}.")
            if name.startswith(SECURITY):
                raise OptionError(f"option {name} cannot be used: {PLAIN}.")
            if name not in KNOWN:
                _refuse_unknown(_as_written(name, given))
        classic = _protocol(options) == "classic"
        group = _required(options, "kafka.group.id", "the name of the consumer group that this query joins")
        topics = _topics(_required(options, "subscribe", "the topics to read, with commas between them"))
        return cls(
            bootstrap=_bootstrap(_required(options, "kafka.bootstrap.servers", "the brokers as host:port with commas between")),
            group=group,
            topics=topics,
            instance_id=options.get("kafka.group.instance.id") or None,
            classic=classic,
            assignor=options.get("kafka.group.remote.assignor") or None,
            session_timeout_ms=_positive(options, "kafka.session.timeout.ms") or 45_000,
            heartbeat_interval_ms=_positive(options, "kafka.heartbeat.interval.ms") or 3_000,
            metadata_max_age_ms=_positive(options, "kafka.metadata.max.age.ms") or 300_000,
            client_id=options.get("kafka.client.id") or f"apportion-spark-{group}",
            rebalance_timeout_ms=_positive(options, "kafka.max.poll.interval.ms") or 300_000,
            request_timeout_ms=_positive(options, "kafka.request.timeout.ms") or 30_000,
            starting=_starting(options.get("startingoffsets", "latest"), topics),
            max_offsets=_positive(options, "maxOffsetsPerTrigger"),
            fail_on_data_loss=_boolean(options, "failOnDataLoss", True),
            include_headers=_boolean(options, "includeHeaders", False),
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
    near = get_close_matches(name.lower(), KNOWN, n=1)
    hint = f"did you mean {KNOWN[near[0]]}?" if near else f"known are {', '.join(sorted(KNOWN.values()))}."
    # Else who wrote startingOffset would take its capital letter for the mistake.
    lowered = " (Spark hands names over in lower case)" if near and name != KNOWN[near[0]] and name.islower() else ""
    raise OptionError(f"option {name} is unknown{lowered}: {hint}")


def _required(options: Mapping[str, str], name: str, what: str) -> str:
    value = (options.get(name) or "").strip()
    if not value:
        raise OptionError(f'option {name} is missing: give {what}, as in .option("{name}", "...").')
    return value


def _protocol(options: Mapping[str, str]) -> str:
    protocol = options.get("kafka.group.protocol", "consumer").strip().lower()
    if protocol not in ONLY:
        raise OptionError(
            f"option kafka.group.protocol is {protocol!r}: give consumer (KIP-848), or classic for brokers that do not have it."
        )
    for other, own in ONLY.items():
        for name, instead in own.items():
            if other != protocol and name in options:
                raise OptionError(f"option {name} is for kafka.group.protocol={other}: with {protocol} {instead}.")
    return protocol


def _bootstrap(value: str) -> str:
    for address in value.split(","):
        host, colon, port = address.strip().rpartition(":")
        if not host or not colon or not port.isdigit() or not 0 < int(port) < 65536:
            raise OptionError(f"option kafka.bootstrap.servers holds {address.strip()!r}: write each broker as host:port.")
    return value


def _topics(value: str) -> tuple[str, ...]:
    names = [name.strip() for name in value.split(",")]
    if not all(names):
        raise OptionError(f"option subscribe holds an empty name in {value!r}: write topics with one comma between them.")
    return tuple(dict.fromkeys(names))


def _positive(options: Mapping[str, str], name: str) -> int | None:
    value = options.get(name.lower())
    if value is None:
        return None
    if not value.strip().isdigit() or int(value) == 0:
        raise OptionError(f"option {name} is {value!r}: give a whole number above 0.")
    return int(value)


def _boolean(options: Mapping[str, str], name: str, default: bool) -> bool:
    value = options.get(name.lower(), str(default)).strip().lower()
    if value not in ("true", "false"):
        raise OptionError(f"option {name} is {value!r}: give true or false.")
    return value == "true"


def _starting(value: str, topics: tuple[str, ...]) -> Starting:
    word = value.strip().lower()
    if word in ("earliest", "latest"):
        return Starting(EARLIEST if word == "earliest" else LATEST)
    advice = 'give earliest, latest, or JSON such as {"flights":{"0":23,"1":-2}} (-2 earliest, -1 latest)'
    try:
        told = json.loads(value)
        own = {(topic, int(partition)): int(offset) for topic, offsets in told.items() for partition, offset in offsets.items()}
    except (ValueError, AttributeError, TypeError):
        raise OptionError(f"option startingOffsets is {value!r}: {advice}.") from None
    for (topic, partition), offset in own.items():
        if topic not in topics:
            raise OptionError(
                f"option startingOffsets names topic {topic}, which subscribe does not: add it there or drop it here."
            )
        if offset < EARLIEST or partition < 0:
            raise OptionError(f"option startingOffsets gives {topic}-{partition} the offset {offset}: {advice}.")
    return Starting(EARLIEST, own)
