"""The group and the span of each source of the running query, for the writer in foreachBatch.

The function of foreachBatch is given rows and a batch id, and Spark has no public way from there to
the offsets of the batch. In a classic session they are read from the JVM's StreamExecution and its
logical plan by py4j; through Spark Connect see `delta_sink/connect_query.py`.
"""

from typing import Any, NamedTuple, Protocol

from pyspark.sql import DataFrame, SparkSession

from apportion.client.kafka_security import FIELDS, kafka_security
from apportion.member.batch.span import Span, parse_span
from apportion.security.client_security import PLAINTEXT, ClientSecurity
from apportion.spark.errors import NotWritable
from apportion.spark.options.stream import client_id_of
from apportion.spark.options.values import PREFIX
from apportion.spark.queries.stateless import refuse_state
from apportion.spark.versions import refuse_available_now

GROUP_OPTION = "kafka.group.id"
BOOTSTRAP_OPTION = "kafka.bootstrap.servers"
CLIENT_ID_OPTION = "kafka.client.id"
EXPLANATION_TIMEOUT_MS = 5_000
PROTOCOL_OPTION = "kafka.security.protocol"


class SourceReading(NamedTuple):
    """One apportion source of a query: its group, and what the current batch reads of it.

    bootstrap: its brokers, as host:port with commas between; "" in tests without a cluster.
    security, client_id: how they are reached, and by what name.
    """

    group: str
    span: Span
    bootstrap: str = ""
    security: ClientSecurity = PLAINTEXT
    client_id: str = ""

    @property
    def request_timeout_ms(self) -> int:
        """The time limit of a writer's request, whatever the source's.

        The answer only explains an error that the writer has already: that must not wait.
        """
        return EXPLANATION_TIMEOUT_MS


def is_classic_session(session: SparkSession | None) -> bool:
    """Return whether this is a session of the driver's own process, and not of Spark Connect."""
    return hasattr(session, "_jsparkSession")


class RunningQuery(Protocol):
    """The query whose foreachBatch has called a writer."""

    @property
    def run(self) -> str:
        """The name of this run of the query: a restarted one may have another plan."""

    def refuse_state(self) -> None:
        """Raise StatefulQuery if the running batch has a stateful operator."""

    def readings(self) -> list[SourceReading]:
        """Return every apportion source of the query with its current span."""


class ClassicQuery(NamedTuple):
    """The query of a classic session, by its StreamExecution in the JVM."""

    execution: Any
    jvm: Any

    @property
    def run(self) -> str:
        """The id of the run."""
        return str(self.execution.runId())

    def refuse_state(self) -> None:
        """Raise StatefulQuery if the running batch has a stateful operator.

        Before Spark 4.2 it raises UnsupportedTrigger for trigger(availableNow=True), too.
        """
        refuse_available_now(self.execution)
        refuse_state(self.execution, self.jvm)

    def readings(self) -> list[SourceReading]:
        """Return every apportion source of the query with its current span."""
        return readings(self.execution)


def classic_query(frame: DataFrame) -> ClassicQuery:
    """Return the query of a classic session whose foreachBatch was given `frame`.

    Raises NotWritable outside of a query.
    """
    spark: Any = frame.sparkSession
    query_id = spark.sparkContext.getLocalProperty("sql.streaming.queryId")
    execution = None
    # `frame` belongs to a clone of the session that started the query, and a session knows only its
    # own queries: the state that all sessions share knows every one.
    if query_id:
        execution = (
            spark._jsparkSession.sharedState()
            .activeStreamingQueries()
            .get(spark._jvm.java.util.UUID.fromString(query_id))
        )
    if execution is None:
        raise NotWritable(
            "apportion's writer works only as the function of writeStream.foreachBatch(...)"
        )
    return ClassicQuery(execution, spark._jvm)


def _security(options: Any) -> ClientSecurity:
    """Return how the source of these options, a map in the JVM, reaches its brokers."""
    # Most queries have none: one look for that, and not one for each option.
    if not options.containsKey(PROTOCOL_OPTION):
        return PLAINTEXT
    names = [PREFIX + name for name in FIELDS]
    given = {name: options.get(name) for name in names if options.containsKey(name)}
    # Without its files, which were looked at as the query began: connections load them.
    return kafka_security(given, PREFIX)


def readings(execution: Any) -> list[SourceReading]:
    """Return every apportion source of the query with its current span.

    Raises NotWritable if there is none.
    """
    # The end offsets of the batch that is running: Spark sets them before it plans the batch.
    offsets = execution.availableOffsets()
    leaves = execution.logicalPlan().collectLeaves()
    sources = []
    for index in range(leaves.size()):
        leaf = leaves.apply(index)
        # Spark's plan node for a stream of a DataSource V2, as Python sources are
        if leaf.nodeName() != "StreamingDataSourceV2ScanRelation":
            continue
        options = leaf.relation().options()
        offset = offsets.get(leaf.stream())
        if options.containsKey(GROUP_OPTION) and offset.isDefined():
            span = parse_span(offset.get().json())
            group, bootstrap = options.get(GROUP_OPTION), options.get(BOOTSTRAP_OPTION)
            client_id = client_id_of(options.get(CLIENT_ID_OPTION), group)
            sources.append(SourceReading(group, span, bootstrap, _security(options), client_id))
    if not sources:
        raise NotWritable(
            'this query does not read from format("apportion"), so nothing says which '
            "records its rows came from"
        )
    return sources


def refuse_one_topic_twice(sources: list[SourceReading]) -> None:
    """Raise NotWritable where two sources of the query read one topic.

    A row names its topic, not its source. A source in a union with itself counts once.
    """
    readers: dict[str, SourceReading] = {}
    for reading in sources:
        for partition in reading.span.ranges:
            if readers.setdefault(partition.topic, reading) != reading:
                raise NotWritable(
                    f"two sources of this query read topic {partition.topic}, and nothing in "
                    "a row says which of them it came from: "
                    "read the topic with one source, or write with a query for each"
                )
