"""CreateTopics, DeleteTopics and CreatePartitions: one result for each topic.

Versions: CreateTopics 2-7, DeleteTopics 1-6 (6: topic ids), CreatePartitions 0-3. The response
waits until the changes are on the disk.
"""

from typing import TypeVar

from apportion.errors import Code, Refused
from apportion.machine import Arrived, Instant
from apportion.node.broker import Answer, BrokerContext, BrokerHandler
from apportion.node.config_entries import topic_entries
from apportion.node.topics import DEFAULT_COUNT, new_topic_id
from apportion.topics import NO_TOPIC_ID, Topic, grouped
from apportion.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from apportion.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from apportion.wire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)

T = TypeVar("T")

FIRST_STATE_VERSION = 6  # the first version of DeleteTopics that names a topic or gives its id


def create_topics(broker: BrokerContext, arrived: Arrived, _now: Instant) -> Answer:
    """Handle CreateTopics: create the topics, each with a new id.

    With `validate_only` only check whether that is possible. The errors are those of each topic.
    """
    request: CreateTopicsRequest = arrived.request
    topics = (
        _create_topic(broker, mentions, request.validate_only, arrived)
        for mentions in grouped((topic.name, topic) for topic in request.topics).values()
    )
    return Answer(CreateTopicsResponse(topics=tuple(topics)))


def _only(mentions: tuple[T, ...]) -> T:
    """Return the one mention of a topic. Errors: INVALID_REQUEST, as in Kafka, for several."""
    if len(mentions) > 1:
        raise Refused(Code.INVALID_REQUEST, "the request names this topic twice")
    return mentions[0]


def _create_topic(
    broker: BrokerContext,
    mentions: tuple[CreatableTopic, ...],
    validate_only: bool,
    arrived: Arrived,
) -> CreatableTopicResult:
    """Create one topic, or only check it, and return its result for CreateTopics."""
    topic_service = broker.topic_service
    try:
        requested = _only(mentions)
        count = _partition_count(requested, broker.settings.node_id)
        config = {each.name: each.value for each in requested.configs}
        topic = topic_service.validate(
            requested.name, count, config, new_topic_id(arrived.fresh, requested.name)
        )
    except Refused as refused:
        return CreatableTopicResult(
            name=mentions[0].name,
            error_code=refused.code,
            error_message=refused.why,
            num_partitions=-1,
            replication_factor=-1,
            configs=None,
        )
    if not validate_only:
        topic_service.create(topic, config)
    return CreatableTopicResult(
        name=topic.name,
        error_message=None,
        # Kafka returns a random id here, of a topic that will never exist.
        topic_id=NO_TOPIC_ID if validate_only else topic.id,
        num_partitions=topic.partitions,
        replication_factor=1,
        configs=tuple(
            CreatableTopicConfigs(name=each.name, value=each.value, config_source=each.source)
            for each in topic_entries(topic.name, config, topic_service.live)
        ),
    )


def _partition_count(requested: CreatableTopic, node_id: int) -> int:
    """Return a new topic's partition count, by number or replica assignment, for CreateTopics."""
    if not requested.assignments:
        if requested.replication_factor not in (-1, 1):
            raise Refused(
                Code.INVALID_REPLICATION_FACTOR,
                "there is one broker, so the replication factor is 1, not "
                f"{requested.replication_factor}",
            )
        return requested.num_partitions
    # As in Kafka: an assignment says both already.
    if requested.num_partitions != DEFAULT_COUNT or requested.replication_factor != -1:
        raise Refused(
            Code.INVALID_REQUEST,
            "give either an assignment, or a number of partitions and a replication factor",
        )
    indexes = sorted(each.partition_index for each in requested.assignments)
    if indexes != list(range(len(indexes))) or any(
        tuple(each.broker_ids) != (node_id,) for each in requested.assignments
    ):
        raise Refused(
            Code.INVALID_REPLICA_ASSIGNMENT,
            f"partitions are numbered from 0 and each is on broker {node_id} alone",
        )
    return len(indexes)


def delete_topics(broker: BrokerContext, arrived: Arrived, _now: Instant) -> Answer:
    """Handle DeleteTopics: delete the topics and their logs.

    A topic that is created later under the same name is another topic.
    """
    request: DeleteTopicsRequest = arrived.request
    states = (
        request.topics
        if arrived.version >= FIRST_STATE_VERSION
        else tuple(DeleteTopicState(name=name) for name in request.topic_names)
    )
    responses = (
        _delete_topic(broker, mentions)
        for mentions in grouped(((state.name, state.topic_id), state) for state in states).values()
    )
    return Answer(DeleteTopicsResponse(responses=tuple(responses)))


def _delete_topic(
    broker: BrokerContext, mentions: tuple[DeleteTopicState, ...]
) -> DeletableTopicResult:
    """Delete one topic, and return its result for DeleteTopics."""
    try:
        topic = _resolve_topic(broker, _only(mentions))
        broker.topic_service.delete(topic)
    except Refused as refused:
        return DeletableTopicResult(
            name=mentions[0].name,
            topic_id=mentions[0].topic_id,
            error_code=refused.code,
            error_message=refused.why,
        )
    return DeletableTopicResult(name=topic.name, topic_id=topic.id)


def _resolve_topic(broker: BrokerContext, state: DeleteTopicState) -> Topic:
    """Return the topic that a DeleteTopics request names or gives the id of."""
    topics = broker.topic_service.topics
    if state.name is not None and state.topic_id != NO_TOPIC_ID:
        raise Refused(Code.INVALID_REQUEST, "give the name or the id, not both")
    if state.name is None and state.topic_id == NO_TOPIC_ID:
        raise Refused(Code.INVALID_REQUEST, "give the name or the id")
    if state.name is not None:
        topic, code = topics.named(state.name), Code.UNKNOWN_TOPIC_OR_PARTITION
    else:
        topic, code = topics.with_id(state.topic_id), Code.UNKNOWN_TOPIC_ID
    if topic is None:
        raise Refused(code, "there is no such topic")
    return topic


def create_partitions(broker: BrokerContext, arrived: Arrived, _now: Instant) -> Answer:
    """Handle CreatePartitions: add partitions to the topics, up to the given counts."""
    request: CreatePartitionsRequest = arrived.request
    results = (
        _grow_topic(broker, mentions, request.validate_only)
        for mentions in grouped((topic.name, topic) for topic in request.topics).values()
    )
    return Answer(CreatePartitionsResponse(results=tuple(results)))


def _grow_topic(
    broker: BrokerContext, mentions: tuple[CreatePartitionsTopic, ...], validate_only: bool
) -> CreatePartitionsTopicResult:
    """Add partitions to one topic, and return its result for CreatePartitions."""
    try:
        requested = _only(mentions)
        topic = broker.topic_service.topics.named(requested.name)
        if topic is None:
            raise Refused(Code.UNKNOWN_TOPIC_OR_PARTITION, "there is no such topic")
        # As in Kafka, a topic only grows: the records of a partition cannot move to another.
        if requested.count <= topic.partitions:
            raise Refused(
                Code.INVALID_PARTITIONS, f"the topic has {topic.partitions} partitions already"
            )
        if (
            requested.assignments is not None
            and len(requested.assignments) != requested.count - topic.partitions
        ):
            raise Refused(
                Code.INVALID_REPLICA_ASSIGNMENT, "an assignment names every new partition"
            )
        if any(
            each.broker_ids != (broker.settings.node_id,) for each in requested.assignments or ()
        ):
            raise Refused(
                Code.INVALID_REPLICA_ASSIGNMENT,
                f"each partition is on broker {broker.settings.node_id} alone",
            )
        if not validate_only:
            broker.topic_service.grow(topic, requested.count)
    except Refused as refused:
        return CreatePartitionsTopicResult(
            name=mentions[0].name, error_code=refused.code, error_message=refused.why
        )
    return CreatePartitionsTopicResult(name=requested.name)


HANDLERS: dict[type, BrokerHandler] = {
    CreateTopicsRequest: create_topics,
    DeleteTopicsRequest: delete_topics,
    CreatePartitionsRequest: create_partitions,
}
