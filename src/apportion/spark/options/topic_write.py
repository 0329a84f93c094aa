"""The options of `df.write` and `df.writeStream` to a topic: declared, parsed and checked.

Options have the names of Spark's own Kafka sink and of Kafka's producer, where they mean the same.
Every error is one sentence that names the option and the remedy.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Literal, TypedDict

from apportion.member.settings import CLIENT_ID, REQUEST_TIMEOUT_MS
from apportion.security.client_security import ClientSecurity
from apportion.security.key_stores import TLS_VERSIONS
from apportion.settings import MAX_INT32, Setting, declared, fault_or_none
from apportion.spark.options.batch_read import BATCH_OPTIONS
from apportion.spark.options.foreign import REFUSED_IN_STREAMS
from apportion.spark.options.foreign_producer import FOR_READING, LEFT_ALONE, REFUSED_FOR_WRITING
from apportion.spark.options.security import KafkaSecurityOptions, query_security
from apportion.spark.options.stream import OPTIONS
from apportion.spark.options.values import (
    OptionError,
    bootstrap_servers,
    by_lower_name,
    parsed,
)

CLIENT_ID_OF_WRITERS = "apportion-spark-writer"
KIB = 1024
LARGEST_REQUEST = 1_000_000_000
LEVELS = {"gzip": (1, 9), "lz4": (1, 12), "zstd": (1, 12)}
"""compression.type -> the levels that Kafka's producer and librdkafka have in common."""
BUFFER_MEMORY, MAX_REQUEST_SIZE = "kafka.buffer.memory", "kafka.max.request.size"


def _level(codec: str) -> Setting:
    least, most = LEVELS[codec]
    return Setting(
        f"The level of {codec}.", default_words="the codec's", at_least=least, at_most=most
    ).only_with(f"kafka.compression.type={codec}")


ProducerOptions = TypedDict(
    "ProducerOptions",
    {
        "kafka.bootstrap.servers": Annotated[
            str, Setting("Brokers as host:port, with commas between.", default_words="required")
        ],
        "topic": Annotated[
            str | None,
            Setting(
                "The topic of every record, whatever the column topic says.",
                default_words="the column topic",
            ),
        ],
        "kafka.client.id": Annotated[
            str, replace(CLIENT_ID, default=None, default_words=CLIENT_ID_OF_WRITERS)
        ],
        "kafka.compression.type": Annotated[
            Literal["none", "gzip", "snappy", "lz4", "zstd"],
            Setting(
                "How batches are compressed.",
                "none",
                choices=("none", "gzip", "snappy", "lz4", "zstd"),
            ),
        ],
        "kafka.compression.gzip.level": Annotated[int | None, _level("gzip")],
        "kafka.compression.lz4.level": Annotated[int | None, _level("lz4")],
        "kafka.compression.zstd.level": Annotated[int | None, _level("zstd")],
        "kafka.linger.ms": Annotated[
            int,
            Setting(
                "How long a batch waits for more records of its partition.",
                5,
                at_least=0,
                at_most=900_000,
            ),
        ],
        "kafka.batch.size": Annotated[
            int,
            Setting(
                "The most bytes of a batch, before compression.",
                1_000_000,
                at_least=1,
                at_most=MAX_INT32,
            ),
        ],
        "kafka.max.request.size": Annotated[
            int,
            Setting(
                "The most bytes of a request, and so of a record.",
                1_048_576,
                at_least=1_000,
                at_most=LARGEST_REQUEST,
            ),
        ],
        "kafka.buffer.memory": Annotated[
            int,
            Setting(
                "The most bytes of records that wait in a task to be acknowledged; a task whose "
                f"buffer is full waits. At least {MAX_REQUEST_SIZE}.",
                33_554_432,
                at_least=1_000,
                at_most=MAX_INT32,
            ),
        ],
        "kafka.acks": Annotated[
            Literal["all", "-1"],
            Setting(
                "all, or -1, which is the same: a record is written once every replica in sync "
                "has it.",
                "all",
                choices=("all", "-1"),
            ),
        ],
        "kafka.enable.idempotence": Annotated[
            Literal["true"],
            Setting(
                "Always true: a request that is sent again writes nothing twice.",
                "true",
                choices=("true",),
            ),
        ],
        "kafka.delivery.timeout.ms": Annotated[
            int,
            Setting(
                "How long a record may wait to be acknowledged, and a task for a broker; then the "
                "task fails.",
                120_000,
                at_least=1,
                at_most=MAX_INT32,
            ),
        ],
        "kafka.request.timeout.ms": Annotated[
            int,
            replace(
                REQUEST_TIMEOUT_MS,
                sentence="How long the brokers may take over one request.",
                at_most=900_000,
            ),
        ],
        "kafka.retries": Annotated[
            int,
            Setting(
                "How often a request is sent again, within kafka.delivery.timeout.ms.",
                MAX_INT32,
                at_least=1,
                at_most=MAX_INT32,
            ),
        ],
        "kafka.retry.backoff.ms": Annotated[
            int, Setting("The first wait before that.", 100, at_least=1, at_most=300_000)
        ],
        "kafka.retry.backoff.max.ms": Annotated[
            int, Setting("The longest wait before that.", 1_000, at_least=1, at_most=300_000)
        ],
        "kafka.max.in.flight.requests.per.connection": Annotated[
            int, Setting("Requests to a broker at the same time.", 5, at_least=1, at_most=5)
        ],
        "kafka.metadata.max.age.ms": Annotated[
            int,
            Setting(
                "The longest time until a task notices new partitions.",
                300_000,
                at_least=1,
                at_most=3_600_000,
            ),
        ],
        "kafka.connections.max.idle.ms": Annotated[
            int,
            Setting(
                "When an unused connection is closed; 0 for never.",
                540_000,
                at_least=0,
                at_most=MAX_INT32,
            ),
        ],
    },
    total=False,
)


class TopicWriterSettings(ProducerOptions, KafkaSecurityOptions):
    """The options as a write gives them: their names have dots, so no class body can have them."""


WRITER_OPTIONS = declared(TopicWriterSettings)
REFUSED = {
    **{
        name: FOR_READING
        for name in (*OPTIONS, *BATCH_OPTIONS, *REFUSED_IN_STREAMS)
        if name not in WRITER_OPTIONS
    },
    **REFUSED_FOR_WRITING,
}
"""The option -> why a write cannot have it."""
WHY_ONLY = {
    "kafka.acks": "with less, a record could be lost after it was taken for written",
    "kafka.enable.idempotence": (
        "without it, a request that is sent again could write twice, or in another order"
    ),
}
"""Why these options have one value alone."""
OF_LIBRDKAFKA = {  # option -> librdkafka's name, of the numbers that go there as they are
    "kafka.linger.ms": "linger.ms",
    "kafka.batch.size": "batch.size",
    MAX_REQUEST_SIZE: "message.max.bytes",
    "kafka.delivery.timeout.ms": "delivery.timeout.ms",
    "kafka.request.timeout.ms": "request.timeout.ms",
    "kafka.retries": "retries",
    "kafka.retry.backoff.ms": "retry.backoff.ms",
    "kafka.retry.backoff.max.ms": "retry.backoff.max.ms",
    "kafka.max.in.flight.requests.per.connection": "max.in.flight.requests.per.connection",
    "kafka.metadata.max.age.ms": "topic.metadata.refresh.interval.ms",
    "kafka.connections.max.idle.ms": "connections.max.idle.ms",
}


@dataclass(frozen=True, slots=True)
class TopicWriterOptions:
    """Options of `format("apportion")` for a write, checked.

    topic: None where each row names its own. producer: settings of librdkafka, those of security
    and the addresses not among them.
    """

    bootstrap: str
    topic: str | None
    client_id: str
    security: ClientSecurity
    delivery_timeout_ms: int
    request_timeout_ms: int
    producer: tuple[tuple[str, str | int], ...]

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> "TopicWriterOptions":
        """Parse the options of a write, whose names may be in any case.

        Raises OptionError for the first fault. Unknown options come first: a name that is misspelt
        would also be reported as missing.
        """
        own = {name: text for name, text in options.items() if name.lower() not in LEFT_ALONE}
        values = by_lower_name(own, WRITER_OPTIONS, REFUSED)
        bootstrap = bootstrap_servers(values)
        topic = values.get("topic")
        if topic is not None and not topic.strip():
            raise OptionError("option topic is empty: give a name, or leave it out.")
        numbers = {
            name: parsed(WRITER_OPTIONS, values, name) for name in (*OF_LIBRDKAFKA, BUFFER_MEMORY)
        }
        _refuse_contradictions(numbers)
        delivery_timeout_ms = numbers["kafka.delivery.timeout.ms"]
        return cls(
            bootstrap=bootstrap,
            topic=None if topic is None else topic.strip(),
            client_id=values.get("kafka.client.id") or CLIENT_ID_OF_WRITERS,
            security=_security(values),
            delivery_timeout_ms=delivery_timeout_ms,
            request_timeout_ms=min(delivery_timeout_ms, numbers["kafka.request.timeout.ms"]),
            producer=(
                *_compression(values),
                *((theirs, numbers[ours]) for ours, theirs in OF_LIBRDKAFKA.items()),
                ("queue.buffering.max.kbytes", -(-numbers[BUFFER_MEMORY] // KIB)),
            ),
        )


def _word(options: Mapping[str, str], name: str) -> str:
    """Return the value of an option that is one of a few words, or its default."""
    setting = WRITER_OPTIONS[name]
    word = options.get(name.lower(), str(setting.default)).strip().lower()
    if fault_or_none(setting, word) is not None:
        why = f": {WHY_ONLY[name]}" if name in WHY_ONLY else ""
        raise OptionError(f"option {name} is {word!r}: give {' or '.join(setting.choices)}{why}.")
    return word


def _compression(options: Mapping[str, str]) -> tuple[tuple[str, str | int], ...]:
    """Return librdkafka's settings of compression, after a look at all words among the options."""
    for name in ("kafka.acks", "kafka.enable.idempotence"):
        _word(options, name)
    codec = _word(options, "kafka.compression.type")
    levels = {
        each: parsed(WRITER_OPTIONS, options, f"kafka.compression.{each}.level") for each in LEVELS
    }
    for each, level in levels.items():
        if level is not None and each != codec:
            raise OptionError(
                f"option kafka.compression.{each}.level says nothing while "
                f"kafka.compression.type is {codec}: drop it."
            )
    chosen, level = ("compression.type", codec), levels.get(codec)
    return (chosen,) if level is None else (chosen, ("compression.level", level))


def _refuse_contradictions(numbers: Mapping[str, int]) -> None:
    """Raise OptionError for numbers with which no record could be sent."""
    lesser = (  # the option, and the one that it must not exceed
        (MAX_REQUEST_SIZE, BUFFER_MEMORY),  # a record must fit into the buffer
        ("kafka.linger.ms", "kafka.delivery.timeout.ms"),
        ("kafka.retry.backoff.ms", "kafka.retry.backoff.max.ms"),
    )
    for less, more in lesser:
        if numbers[less] > numbers[more]:
            raise OptionError(
                f"option {less} is {numbers[less]}, more than {more}, which is {numbers[more]}: "
                "lower the one or raise the other."
            )


def _security(options: Mapping[str, str]) -> ClientSecurity:
    """Return the security of a write; raise OptionError for what librdkafka cannot do."""
    security = query_security(options)
    if security.tls is not None and security.tls.versions != TLS_VERSIONS:
        raise OptionError(
            "option kafka.ssl.enabled.protocols cannot be used for writing: librdkafka offers "
            f"{' and '.join(TLS_VERSIONS)}; drop the option."
        )
    return security
