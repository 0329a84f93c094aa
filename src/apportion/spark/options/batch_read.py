"""The options of a batch read: declared, parsed and checked before a job starts.

A batch read joins no group. Spark does not tell a source whether it is loaded as a stream or for a
batch read, so what only one of them has is refused when it begins.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, TypedDict

from apportion.member.batch.bounded_read import BoundedRead
from apportion.member.settings import REQUEST_TIMEOUT_MS
from apportion.security.client_security import ClientSecurity
from apportion.settings import MAX_INT64, Setting, declared
from apportion.spark.options.chosen_topics import topic_option
from apportion.spark.options.foreign import NO_JOIN, REFUSED_IN_BATCH_READS
from apportion.spark.options.security import KafkaSecurityOptions, query_security
from apportion.spark.options.starting_offsets import (
    COMMITTED,
    STARTING_OFFSETS_BY_TIMESTAMP,
    STARTING_TIMESTAMP,
    TIMESTAMP_STRATEGY,
    batch_end,
    batch_start,
    ending_times,
)
from apportion.spark.options.stream import (
    INCLUDE_HEADERS,
    MAX_RECORDS_PER_PARTITION,
    MIN_PARTITIONS,
    OPTIONS,
    SourceOptions,
    task_limits,
)
from apportion.spark.options.task_limits import TaskLimits
from apportion.spark.options.values import (
    ISOLATION_LEVEL,
    OptionError,
    bootstrap_servers,
    by_lower_name,
    parsed,
    refuse_uncommitted_reads,
    required_text,
)
from apportion.wire.messages.list_offsets import LATEST

CLIENT_ID = "apportion-spark-batch"
BatchQueryOptions = TypedDict(
    "BatchQueryOptions",
    {
        "kafka.bootstrap.servers": Annotated[
            str, Setting("Brokers as host:port, with commas between.", default_words="required")
        ],
        "subscribe": Annotated[
            str,
            Setting(
                "Topics, with commas between; each must exist.",
                default_words="required, or one of the next two",
            ),
        ],
        "subscribePattern": Annotated[
            str | None,
            Setting(
                "Topics by a regular expression of RE2, which matches whole names; one at least "
                "must exist."
            ),
        ],
        "assign": Annotated[str | None, Setting('Partitions, as JSON such as {"flights":[0,1]}.')],
        "startingOffsets": Annotated[
            str,
            Setting(
                "Where each partition begins: earliest; committed, which is the committed offset "
                "of the group kafka.group.id, or earliest where it has none; or JSON with every "
                "partition of the topics.",
                "earliest",
            ),
        ],
        "endingOffsets": Annotated[
            str,
            Setting(
                "Where each partition ends: latest, when the job is planned; or JSON with every "
                "partition of the topics.",
                "latest",
            ),
        ],
        "startingTimestamp": Annotated[int | None, STARTING_TIMESTAMP],
        "startingOffsetsByTimestamp": Annotated[str | None, STARTING_OFFSETS_BY_TIMESTAMP],
        "startingOffsetsByTimestampStrategy": Annotated[str, TIMESTAMP_STRATEGY],
        "endingTimestamp": Annotated[
            int | None,
            Setting(
                "End before the first record of this time or later, in ms since 1970, or at the "
                "end of a partition that has none; comes before endingOffsetsByTimestamp.",
                at_least=0,
                at_most=MAX_INT64,
            ),
        ],
        "endingOffsetsByTimestamp": Annotated[
            str | None,
            Setting("The same as JSON by topic and partition; comes before endingOffsets."),
        ],
        "kafka.group.id": Annotated[
            str | None,
            Setting(
                "The group whose committed offsets are the beginning; the read neither joins it "
                "nor commits to it."
            ).only_with("startingOffsets=committed"),
        ],
        "minPartitions": Annotated[int | None, MIN_PARTITIONS],
        "maxRecordsPerPartition": Annotated[int | None, MAX_RECORDS_PER_PARTITION],
        "failOnDataLoss": Annotated[
            bool,
            Setting(
                "Whether records that are gone fail the read; the error says which offsets.", True
            ),
        ],
        "includeHeaders": Annotated[bool, INCLUDE_HEADERS],
        "kafka.isolation.level": Annotated[str, ISOLATION_LEVEL],
        "kafka.client.id": Annotated[
            str, Setting("The name that brokers log and tools show.", CLIENT_ID)
        ],
        "kafka.request.timeout.ms": Annotated[int, REQUEST_TIMEOUT_MS],
    },
    total=False,
)


class BatchReadOptions(BatchQueryOptions, KafkaSecurityOptions):
    """The options as a batch read gives them."""


BATCH_OPTIONS = declared(BatchReadOptions)
ONLY_IN_BATCH_READS = {name.lower() for name in BATCH_OPTIONS if name not in OPTIONS}
ONLY_IN_STREAMS = {name.lower() for name in OPTIONS if name not in BATCH_OPTIONS}
REFUSED = {
    **dict.fromkeys((name for name in OPTIONS if name not in BATCH_OPTIONS), NO_JOIN),
    **REFUSED_IN_BATCH_READS,
}


@dataclass(frozen=True, slots=True)
class BatchOptions:
    """Options of `spark.read.format("apportion")`, checked.

    group: None unless the read begins at committed offsets.
    """

    bootstrap: str
    security: ClientSecurity
    client_id: str
    request_timeout_ms: int
    group: str | None
    read: BoundedRead
    task_limits: TaskLimits
    include_headers: bool

    @property
    def fail_on_data_loss(self) -> bool:
        """Return whether records that are gone fail the read."""
        return self.read.fail_on_data_loss

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> "BatchOptions":
        """Parse the options of a batch read, whose names may be in any case.

        Raises OptionError for the first fault.
        """
        values = by_lower_name(options, BATCH_OPTIONS, REFUSED)
        refuse_uncommitted_reads(values)
        value_of = partial(parsed, BATCH_OPTIONS, values)
        bootstrap = bootstrap_servers(values)
        topics = topic_option(values)
        group = _group_of_offsets(values, values.get("startingoffsets", "earliest"))
        security = query_security(values)
        read = BoundedRead(
            topics.topics,
            batch_start(values, value_of, topics),
            batch_end(values, topics),
            ending_times(values, value_of, topics),
            from_committed=group is not None,
            fail_on_data_loss=value_of("failOnDataLoss"),
            assigned=topics.partitions,
        )
        _refuse_reversed(read)
        return cls(
            bootstrap=bootstrap,
            security=security,
            client_id=values.get("kafka.client.id") or CLIENT_ID,
            request_timeout_ms=value_of("kafka.request.timeout.ms"),
            group=group,
            read=read,
            task_limits=task_limits(value_of),
            include_headers=value_of("includeHeaders"),
        )


def _group_of_offsets(values: Mapping[str, str], start: str) -> str | None:
    """Return the group at whose committed offsets the read begins; None if it does not."""
    if start.strip().lower() == COMMITTED:
        return required_text(
            values, "kafka.group.id", "the group at whose committed offsets the read begins"
        )
    # Spark's own source takes the name as a label, ours otherwise as a real group: neither is meant
    # for certain.
    if values.get("kafka.group.id"):
        raise OptionError(
            "option kafka.group.id says nothing in a batch read with startingOffsets="
            f"{start}: give startingOffsets=committed to begin at the group's committed offsets, "
            "or leave kafka.group.id out; a batch read joins no group and commits nothing."
        )
    return None


def _refuse_reversed(read: BoundedRead) -> None:
    """Raise OptionError for a beginning that the options put behind its end."""
    for partition, start in read.starting.by_partition.items():
        end = read.ending.get(partition, LATEST)
        if start > end >= 0:
            topic, number = partition
            raise OptionError(
                f"option startingOffsets gives {topic}-{number} the offset {start}, and "
                f"endingOffsets {end}: the read would end before it begins."
            )
    since, until = (
        None if times is None else times.for_all
        for times in (read.starting.times, read.ending_times)
    )
    if since is not None and until is not None and since > until:
        raise OptionError(
            f"option startingTimestamp is {since}, and endingTimestamp {until}: the read would "
            "end before it begins."
        )


def loaded_options(options: Mapping[str, str]) -> SourceOptions | BatchOptions:
    """Return the options of `load()`, checked as those of the kind of read that they can be.

    Raises OptionError. Options that fit both are checked as a stream's if they name a group, which
    every stream must.
    """
    names = {name.lower() for name in options}
    start = next((text for name, text in options.items() if name.lower() == "startingoffsets"), "")
    start = start.strip().lower()
    has_batch_option = bool(names & ONLY_IN_BATCH_READS)
    is_batch_read = has_batch_option or start == COMMITTED
    has_stream_option = bool(names & ONLY_IN_STREAMS)
    if not is_batch_read and ("kafka.group.id" in names or has_stream_option):
        return SourceOptions.parse(options)
    try:
        return BatchOptions.parse(options)
    except OptionError as error:
        names_a_member = "kafka.group.id" in names and start != COMMITTED
        # What format("kafka") has by default: such a stream often has no group yet.
        is_stream_without_group = start == "latest" and not has_batch_option
        if has_stream_option or names_a_member or is_stream_without_group:
            raise _refused_as_both(options, str(error)) from None
        raise


def _refused_as_both(options: Mapping[str, str], as_batch_read: str) -> OptionError:
    """Return the error of options that are neither a stream's nor a batch read's.

    as_batch_read: why they are not those of a batch read.
    """
    try:
        SourceOptions.parse(options)
    except OptionError as error:
        as_stream = str(error)
        if as_stream != as_batch_read:
            return OptionError(
                f"as a stream: {as_stream.removesuffix('.')}; as a batch read: {as_batch_read}"
            )
    return OptionError(as_batch_read)
