"""CreateTopics, DeleteTopics and CreatePartitions: one result for each topic.

Versions: CreateTopics 2-7, DeleteTopics 1-6 (6: topic ids), CreatePartitions 0-3. The response
waits until the changes are on the disk.
"""

from collections import Counter
from hashlib import blake2b

from apportion.errors import Code, Refused
from apportion.machine import Arrived, Instant
from apportion.node.broker import Answer, BrokerContext, BrokerHandler
from apportion.node.topics import DEFAULT_COUNT
from apportion.topics import NO_TOPIC_ID, Topic
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

FIRST_STATE_VERSION = 6  # the first version of DeleteTopics that names a topic or gives its id


def create_topics(broker: BrokerContext, arrived: Arrived, _now: Instant) -> Answer:
    """Handle CreateTopics: create the topics, each with a new id.

    With `validate_only` only check whether that is possible. The errors are those of each topic.
    """
    request: CreateTopicsRequest = arrived.request
    counts = Counter(topic.name for topic in request.topics)
    return Answer(
        CreateTopicsResponse(
            topics=tuple(
                _create_topic(broker, topic, request.validate_only, arrived)
                if counts[topic.name] == 1
                else _create_topic_error(topic.name, duplicate_topic_error())
                for topic in {topic.name: topic for topic in request.topics}.values()
            )
        )
    )


def duplicate_topic_error() -> Refused:
    """Return the error of a topic that a request names twice; Kafka answers it once."""
    return Refused(Code.INVALID_REQUEST, "the request names this topic twice")


def _create_topic(
    broker: BrokerContext, requested: CreatableTopic, validate_only: bool, arrived: Arrived
) -> CreatableTopicResult:
    """Create one topic, or only check it, and return its result for CreateTopics."""
    topic_service = broker.topic_service
    try:
        count = _partition_count(requested, broker.settings.node_id)
        config = {each.name: each.value for each in requested.configs}
        topic = topic_service.validate(
            requested.name, count, config, new_topic_id(arrived.fresh, requested.name)
        )
    except Refused as refused:
        return _create_topic_error(requested.name, refused)
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
            for each in topic_service.config_entries(topic.name, config)
        ),
    )


def _create_topic_error(name: str, refused: Refused) -> CreatableTopicResult:
    """Return the result of one topic that CreateTopics has refused."""
    return CreatableTopicResult(
        name=name,
        error_code=refused.code,
        error_message=refused.why,
        num_partitions=-1,
        replication_factor=-1,
        configs=None,
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


def new_topic_id(fresh: bytes, name: str) -> bytes:
    """Return a topic id that is unique to this step and this name."""
    # A machine draws no random numbers: one fresh id comes with each request, which may create many
    # topics.
    return blake2b(name.encode(), key=fresh, digest_size=16).digest()


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
    counts = Counter((state.name, state.topic_id) for state in states)
    distinct = {(state.name, state.topic_id): state for state in states}
    responses = (
        _delete_topic(broker, state, counts[name_and_id] > 1)
        for name_and_id, state in distinct.items()
    )
    return Answer(DeleteTopicsResponse(responses=tuple(responses)))


def _delete_topic(
    broker: BrokerContext, state: DeleteTopicState, is_named_twice: bool
) -> DeletableTopicResult:
    """Delete one topic, and return its result for DeleteTopics."""
    try:
        if is_named_twice:
            raise duplicate_topic_error()
        topic = _resolve_topic(broker, state)
        broker.topic_service.delete(topic)
    except Refused as refused:
        return DeletableTopicResult(
            name=state.name,
            topic_id=state.topic_id,
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
    counts = Counter(topic.name for topic in request.topics)
    distinct = {topic.name: topic for topic in request.topics}.values()
    results = (
        _grow_topic(broker, topic, request.validate_only, counts[topic.name] > 1)
        for topic in distinct
    )
    return Answer(CreatePartitionsResponse(results=tuple(results)))


def _grow_topic(
    broker: BrokerContext,
    requested: CreatePartitionsTopic,
    validate_only: bool,
    is_named_twice: bool,
) -> CreatePartitionsTopicResult:
    """Add partitions to one topic, and return its result for CreatePartitions."""
    try:
        if is_named_twice:
            raise duplicate_topic_error()
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
            name=requested.name, error_code=refused.code, error_message=refused.why
        )
    return CreatePartitionsTopicResult(name=requested.name)


HANDLERS: dict[type, BrokerHandler] = {
    CreateTopicsRequest: create_topics,
    DeleteTopicsRequest: delete_topics,
    CreatePartitionsRequest: create_partitions,
}
