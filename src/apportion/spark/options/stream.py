"""The options of the Spark source: declared, parsed and checked before the query starts.

Every error is one sentence that names the option and the remedy. Options have the names of Spark's
own Kafka source where they mean the same.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypedDict

from apportion.member.batch.plan import StartingOffsets
from apportion.member.batch.topic_choice import TopicChoice
from apportion.member.settings import (
    CLIENT_ID,
    GROUP_PROTOCOL,
    HEARTBEAT_INTERVAL_MS,
    INSTANCE_ID,
    MAX_POLL_INTERVAL_MS,
    METADATA_MAX_AGE_MS,
    REQUEST_TIMEOUT_MS,
    SESSION_TIMEOUT_MS,
    heartbeat_fault_or_none,
)
from apportion.security.client_security import ClientSecurity
from apportion.settings import Setting, declared, fault_or_none
from apportion.spark.options.chosen_topics import topic_option
from apportion.spark.options.foreign import REFUSED_IN_STREAMS
from apportion.spark.options.security import KafkaSecurityOptions, query_security
from apportion.spark.options.starting_offsets import (
    STARTING_OFFSETS_BY_TIMESTAMP,
    STARTING_TIMESTAMP,
    TIMESTAMP_STRATEGY,
    stream_start,
)
from apportion.spark.options.task_limits import MOST_TASKS, TaskLimits
from apportion.spark.options.values import (
    ISOLATION_LEVEL,
    OptionError,
    bootstrap_servers,
    by_lower_name,
    duration_ms,
    parsed,
    refuse_uncommitted_reads,
    required_text,
)

if TYPE_CHECKING:
    from apportion.member.assignors.interface import Assignor

CLIENT_ID_PREFIX = "apportion-spark-"
PROTOCOL_OPTIONS = {  # protocol -> option that it alone has -> what the other one has instead
    "consumer": {
        "kafka.group.remote.assignor": "the members assign, by cooperative-sticky; drop the option",
        "kafka.group.local.assignors": "the members assign, by cooperative-sticky; drop the option",
        "subscribePattern": "name the topics in subscribe, since the broker resolves no pattern",
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
MIN_PARTITIONS = Setting(
    "The fewest tasks of a batch: the ranges of large partitions are divided where there are fewer "
    "partitions than that.",
    default_words="as many as cores",
    at_least=1,
    at_most=MOST_TASKS,
)
MAX_RECORDS_PER_PARTITION = Setting(
    "The most offsets that one task reads: larger ranges are divided, and a task reads one part.",
    default_words="none",
    at_least=1,
)
INCLUDE_HEADERS = Setting("Whether rows have the column headers.", False)
QueryOptions = TypedDict(
    "QueryOptions",
    {
        "kafka.bootstrap.servers": Annotated[
            str, Setting("Brokers as host:port, with commas between.", default_words="required")
        ],
        "kafka.group.id": Annotated[
            str,
            Setting(
                "The group that the query joins as a member. Spark's own source takes the name as "
                "a label only.",
                default_words="required",
            ),
        ],
        "subscribe": Annotated[
            str,
            Setting(
                "Topics, with commas between.", default_words="required, or one of the next two"
            ),
        ],
        "subscribePattern": Annotated[
            str | None,
            Setting(
                "Topics by a regular expression of RE2, which matches whole names and which the "
                "broker resolves, also for topics that come later."
            ).only_with("kafka.group.protocol=consumer"),
        ],
        "assign": Annotated[
            str | None,
            Setting(
                'Partitions in place of topics, as JSON such as {"flights":[0,1]}: without a '
                "membership, so that nobody balances them; the group only keeps the offsets."
            ),
        ],
        "startingOffsets": Annotated[
            str,
            Setting(
                "Where a partition starts for which the group has no offset: earliest, latest, or "
                "JSON by topic and partition. A partition that appears later starts at its "
                "earliest record.",
                "latest",
            ),
        ],
        "startingTimestamp": Annotated[int | None, STARTING_TIMESTAMP],
        "startingOffsetsByTimestamp": Annotated[str | None, STARTING_OFFSETS_BY_TIMESTAMP],
        "startingOffsetsByTimestampStrategy": Annotated[str, TIMESTAMP_STRATEGY],
        "maxOffsetsPerTrigger": Annotated[
            int | None,
            Setting(
                "The most offsets in one batch, shared by lag.", default_words="none", at_least=1
            ),
        ],
        "minOffsetsPerTrigger": Annotated[
            int | None,
            Setting(
                "The fewest new offsets for which a batch is read, unless maxTriggerDelay has "
                "passed; not with trigger(availableNow=True).",
                default_words="none",
                at_least=1,
            ),
        ],
        "maxTriggerDelay": Annotated[
            str,
            Setting(
                "How long after the last batch fewer offsets than minOffsetsPerTrigger are left "
                "unread, such as 90s, 15m or 1h.",
                "15m",
            ).only_with("minOffsetsPerTrigger"),
        ],
        "minPartitions": Annotated[int | None, MIN_PARTITIONS],
        "maxRecordsPerPartition": Annotated[int | None, MAX_RECORDS_PER_PARTITION],
        "failOnDataLoss": Annotated[
            bool,
            Setting(
                "Whether deleted records or a deleted topic end the query; the error says which "
                "offsets.",
                True,
            ),
        ],
        "includeHeaders": Annotated[bool, INCLUDE_HEADERS],
        "kafka.group.instance.id": Annotated[str | None, INSTANCE_ID],
        "kafka.group.protocol": Annotated[
            Literal["consumer", "classic"],
            replace(
                GROUP_PROTOCOL,
                sentence="consumer (KIP-848), or classic for brokers that do not have it.",
            ),
        ],
        "kafka.group.remote.assignor": Annotated[
            str | None,
            Setting(
                "The broker's assignor: uniform, range, or one of your own.",
                default_words="the broker's",
            ).only_with("kafka.group.protocol=consumer"),
        ],
        "kafka.group.local.assignors": Annotated[
            str,
            Setting(
                "Assignors that the query can run, with commas between, the preferred first: "
                "sticky, lag-weighted and others, or module:Class; the group uses one that all "
                "members offer, or else the broker's. No Apache Kafka has them.",
                "",
                default_words="none",
            ).only_with("kafka.group.protocol=consumer"),
        ],
        "kafka.session.timeout.ms": Annotated[
            int, SESSION_TIMEOUT_MS.only_with("kafka.group.protocol=classic")
        ],
        "kafka.heartbeat.interval.ms": Annotated[
            int, HEARTBEAT_INTERVAL_MS.only_with("kafka.group.protocol=classic")
        ],
        "kafka.metadata.max.age.ms": Annotated[
            int, METADATA_MAX_AGE_MS.only_with("kafka.group.protocol=classic")
        ],
        "kafka.max.poll.interval.ms": Annotated[
            int,
            replace(
                MAX_POLL_INTERVAL_MS,
                sentence="The longest batch; a query that takes longer leaves the group until it "
                "is back, and loses its partitions meanwhile.",
            ),
        ],
        "kafka.isolation.level": Annotated[str, ISOLATION_LEVEL],
        "kafka.client.id": Annotated[
            str,
            replace(
                CLIENT_ID,
                sentence="The name that brokers log and tools show. The default is that of the "
                f"member; the tasks, which fetch the records, have {CLIENT_ID_PREFIX}<group>.",
                default=None,
                default_words=CLIENT_ID_PREFIX + "<group>-<host>-<pid>",
            ),
        ],
        "kafka.request.timeout.ms": Annotated[int, REQUEST_TIMEOUT_MS],
    },
    total=False,
)


class SparkOptions(QueryOptions, KafkaSecurityOptions):
    """The options as a query gives them: their names have dots, so no class body can have them."""


OPTIONS = declared(SparkOptions)


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """Options of `spark.readStream.format("apportion")`, checked."""

    bootstrap: str
    security: ClientSecurity
    group: str
    topics: TopicChoice
    assigned: tuple[tuple[str, int], ...] | None
    instance_id: str | None
    classic: bool
    assignor: str | None
    local_assignors: tuple[str, ...]
    session_timeout_ms: int
    heartbeat_interval_ms: int
    metadata_max_age_ms: int
    client_id: str
    rebalance_timeout_ms: int
    request_timeout_ms: int
    starting: StartingOffsets
    max_offsets: int | None
    min_offsets: int | None
    max_delay_ms: int
    task_limits: TaskLimits
    fail_on_data_loss: bool
    include_headers: bool

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> "SourceOptions":
        """Parse the options of a query, whose names may be in any case.

        Raises OptionError for the first fault. Unknown options come first: a name that is misspelt
        would also be reported as missing.
        """
        values = by_lower_name(options, OPTIONS, REFUSED_IN_STREAMS)
        refuse_uncommitted_reads(values)
        value_of = partial(parsed, OPTIONS, values)
        classic = _parse_protocol(values) == "classic"
        group = required_text(
            values, "kafka.group.id", "the name of the consumer group that this query joins"
        )
        topics = topic_option(values)
        bootstrap = bootstrap_servers(values)
        starting = stream_start(values, value_of, topics)
        security = query_security(values)
        least, most = _parse_batch_sizes(value_of)
        if classic:
            names = (
                "kafka.heartbeat.interval.ms",
                "kafka.session.timeout.ms",
                "kafka.max.poll.interval.ms",
            )
            fault = heartbeat_fault_or_none(*((name, value_of(name)) for name in names))
            if fault is not None:
                raise OptionError(f"option {fault}.")
        return cls(
            bootstrap=bootstrap,
            security=security,
            group=group,
            topics=topics.topics,
            assigned=topics.partitions,
            instance_id=values.get("kafka.group.instance.id") or None,
            classic=classic,
            assignor=values.get("kafka.group.remote.assignor") or None,
            local_assignors=_parse_local_assignors(values),
            session_timeout_ms=value_of("kafka.session.timeout.ms"),
            heartbeat_interval_ms=value_of("kafka.heartbeat.interval.ms"),
            metadata_max_age_ms=value_of("kafka.metadata.max.age.ms"),
            client_id=client_id_of(values.get("kafka.client.id"), group),
            rebalance_timeout_ms=value_of("kafka.max.poll.interval.ms"),
            request_timeout_ms=value_of("kafka.request.timeout.ms"),
            starting=starting,
            max_offsets=most,
            min_offsets=least,
            max_delay_ms=duration_ms(OPTIONS, values, "maxTriggerDelay"),
            task_limits=task_limits(value_of),
            fail_on_data_loss=value_of("failOnDataLoss"),
            include_headers=value_of("includeHeaders"),
        )

    def membership(self) -> dict[str, Any]:
        """Return the keyword arguments of the query's `GroupMembership`."""
        settings: dict[str, Any] = {
            "instance_id": self.instance_id,
            "rebalance_timeout_ms": self.rebalance_timeout_ms,
            "poll_limit_ms": self.rebalance_timeout_ms,
        }
        if not self.classic:
            return settings | {
                "server_assignor": self.assignor,
                # New objects for each membership: an assignor may keep state of its member.
                "assignors": _assignors_of(self.local_assignors),
            }
        from apportion.member.assignors.strategy import strategy

        return settings | {
            "protocol": "classic",
            "assignors": strategy("cooperative-sticky"),
            "session_timeout_ms": self.session_timeout_ms,
            "heartbeat_interval_ms": self.heartbeat_interval_ms,
            "metadata_interval_ms": self.metadata_max_age_ms,
        }


def client_id_of(given: str | None, group: str) -> str:
    """Return the name of a query's connections. given: its option kafka.client.id."""
    return given or CLIENT_ID_PREFIX + group


def task_limits(value_of: Callable[[str], Any]) -> TaskLimits:
    """Return the limits of the tasks of a stream or of a batch read."""
    return TaskLimits(value_of("minPartitions"), value_of("maxRecordsPerPartition"))


def _parse_batch_sizes(value_of: Callable[[str], Any]) -> tuple[int | None, int | None]:
    """Return the fewest and the most offsets of a batch; raise OptionError if they contradict."""
    least, most = value_of("minOffsetsPerTrigger"), value_of("maxOffsetsPerTrigger")
    if least is not None and most is not None and least > most:
        raise OptionError(
            f"option minOffsetsPerTrigger ({least}) must not be above maxOffsetsPerTrigger "
            f"({most})."
        )
    return least, most


def _parse_protocol(options: Mapping[str, str]) -> str:
    """Return kafka.group.protocol; raise OptionError for options of the other protocol."""
    setting = OPTIONS["kafka.group.protocol"]
    protocol = options.get(setting.name, str(setting.default)).strip().lower()
    if fault_or_none(setting, protocol) is not None:
        raise OptionError(f"option {setting.name} is {protocol!r}: give {setting.sentence}")
    for other, own_options in PROTOCOL_OPTIONS.items():
        for name, remedy in own_options.items():
            if other != protocol and name.lower() in options:
                raise OptionError(
                    f"option {name} is for kafka.group.protocol={other}: with {protocol} {remedy}."
                )
    return protocol


def _parse_local_assignors(options: Mapping[str, str]) -> tuple[str, ...]:
    """Return kafka.group.local.assignors, loaded once; raise OptionError for a fault of one."""
    value = options.get("kafka.group.local.assignors", "")
    names = tuple(name for each in value.split(",") if (name := each.strip()))
    if names and options.get("kafka.group.remote.assignor"):
        raise OptionError(
            "options kafka.group.remote.assignor and kafka.group.local.assignors exclude each "
            "other: the broker assigns, or a member does; leave one out."
        )
    if not names:
        return ()
    try:
        assignors = _assignors_of(names)
    except ValueError as error:
        raise OptionError(f"option kafka.group.local.assignors: {error}.") from error
    from apportion.member.assignors.interface import MeasuringAssignor

    for assignor in assignors:
        if isinstance(assignor, MeasuringAssignor):
            raise OptionError(
                f"option kafka.group.local.assignors: {assignor.name} measures what a consumer "
                "reads, and a query's executors read; use lag-weighted."
            )
    return names


def _assignors_of(names: tuple[str, ...]) -> "tuple[Assignor, ...]":
    """Return new assignors of these names; raise ValueError for a name of none."""
    from apportion.member.assignors.strategy import local_assignors

    return local_assignors(names) if names else ()
