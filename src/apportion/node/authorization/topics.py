"""The checks of topics and their records: Produce, Fetch, Metadata, DeleteTopics and others."""

from collections import Counter
from typing import TYPE_CHECKING, Any

from apportion.errors import Code, Refused
from apportion.machine import Arrived
from apportion.node.authorization.checks import (
    EACH_IS_CHECKED,
    Checked,
    InTurn,
    Need,
    OfEach,
    Parts,
    Verdict,
    by_verdicts,
    completing,
    needing,
    parted,
    refused,
)
from apportion.node.authorization.rights import Rights
from apportion.node.broker import BrokerContext
from apportion.node.handlers.admin import FIRST_STATE_VERSION
from apportion.node.handlers.cluster import FIRST_TOPIC_ID_VERSION, NOT_REQUESTED
from apportion.security.acls import CLUSTER_NAME, AclOperation, ResourceType
from apportion.topics import NO_TOPIC_ID
from apportion.wire.batch import ATTRIBUTES_BYTE, HEADER_BYTES, TRANSACTIONAL
from apportion.wire.fields import replaced
from apportion.wire.messages.create_topics import CreatableTopicResult, CreateTopicsResponse
from apportion.wire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicState,
)
from apportion.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)

if TYPE_CHECKING:
    from apportion.wire.messages.fetch import FetchRequest
    from apportion.wire.messages.init_producer_id import InitProducerIdRequest
    from apportion.wire.messages.produce import ProduceRequest

READ, WRITE = AclOperation.READ, AclOperation.WRITE
CREATE, DELETE = AclOperation.CREATE, AclOperation.DELETE
DESCRIBE, DESCRIBE_CONFIGS = AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS
CLUSTER_ACTION = AclOperation.CLUSTER_ACTION
TOPIC, CLUSTER = ResourceType.TOPIC, ResourceType.CLUSTER
TRANSACTIONAL_ID = ResourceType.TRANSACTIONAL_ID
FIRST_CONFIGS_VERSION = 5  # the first version of CreateTopics whose response has settings


@needing(Need(WRITE, TRANSACTIONAL_ID, "refused, if there is a batch of a transaction"))
def of_transaction(_broker: BrokerContext, arrived: Arrived, rights: Rights) -> Checked:
    """Check the transactional id of a Produce request, if a batch is of a transaction."""
    request: ProduceRequest = arrived.request
    transactional_id = request.transactional_id
    if transactional_id is None or rights.allows(WRITE, TRANSACTIONAL_ID, transactional_id):
        return arrived
    if not any(
        data.records is not None
        and len(data.records) >= HEADER_BYTES
        and data.records[ATTRIBUTES_BYTE] & TRANSACTIONAL
        for topic in request.topic_data
        for data in topic.partition_data
    ):
        return arrived
    return refused(arrived, rights.refusal(WRITE, TRANSACTIONAL_ID, transactional_id))


produce = InTurn(of_transaction, OfEach(WRITE, TOPIC, ("topic_data", "responses"), by_id_from=13))

FETCH_ARRAYS = ("topics", "responses")
# The handler is asked in any case: before all else it refuses the session of a request.
FETCH_OF_CONSUMER = OfEach(READ, TOPIC, FETCH_ARRAYS, "topic", by_id_from=13, asks_anyway=True)


@needing(
    Need(READ, TOPIC),
    Need(CLUSTER_ACTION, CLUSTER, "all is refused, of a request in a replica's name"),
)
def fetch(broker: BrokerContext, arrived: Arrived, rights: Rights) -> Checked:
    """Check the topics of a Fetch; in the name of a replica, that the caller is a broker."""
    request: FetchRequest = arrived.request
    replica_id = request.replica_state.replica_id if arrived.version >= 15 else request.replica_id
    if replica_id < 0:
        return FETCH_OF_CONSUMER(broker, arrived, rights)
    if rights.on_cluster(CLUSTER_ACTION):
        return arrived
    rights.deny(CLUSTER_ACTION, CLUSTER, CLUSTER_NAME)
    # Kafka's code, too, though it is the cluster that the permission is missing for.
    refusal = Refused(Code.TOPIC_AUTHORIZATION_FAILED)
    verdicts = [Verdict(topic, refusal) for topic in request.topics]
    return by_verdicts(arrived, rights, FETCH_ARRAYS, verdicts, asks_anyway=True)


@needing(
    Need(DESCRIBE, TOPIC, "a named topic is refused; of all topics it is left out"),
    Need(CREATE, CLUSTER, "each topic that would be created is checked"),
    Need(CREATE, TOPIC, "refused, if it would be created"),
    Need(DESCRIBE, CLUSTER, "0 for the authorized operations"),
)
def metadata(broker: BrokerContext, arrived: Arrived, rights: Rights) -> Checked:
    """Check the topics of a Metadata request, or of its response if it asks for all topics."""
    request: MetadataRequest = arrived.request
    names_all = request.topics is None or (arrived.version == 0 and not request.topics)
    left: list[MetadataRequestTopic] = []
    hidden: dict[tuple[str | None, bytes], MetadataResponseTopic] = {}  # each once
    for requested in request.topics or ():
        has_id = requested.topic_id != NO_TOPIC_ID or requested.name is None
        if has_id and arrived.version < FIRST_TOPIC_ID_VERSION:
            left.append(requested)  # The handler refuses it for every caller.
            continue
        refused_topic = _refused_topic_or_none(broker, requested, rights, request)
        if refused_topic is None:
            left.append(requested)
        else:
            hidden[refused_topic.name, refused_topic.topic_id] = refused_topic
    if not (
        names_all
        or hidden
        or request.include_topic_authorized_operations
        or request.include_cluster_authorized_operations
    ):
        return arrived

    def complete(response: MetadataResponse) -> MetadataResponse:
        # Version 0 asks for all topics by an empty list, which what is left may be.
        topics = response.topics if names_all or left else ()
        described = (
            _with_operations(topic, rights)
            for topic in topics
            if not names_all or topic.name is None or rights.allows(DESCRIBE, TOPIC, topic.name)
        )
        return replaced(
            response,
            topics=(*described, *hidden.values()),
            cluster_authorized_operations=cluster_operations(
                response.cluster_authorized_operations, rights
            ),
        )

    if hidden:
        arrived = arrived._replace(request=replaced(request, topics=tuple(left)))
    return completing(arrived, rights, complete)


def _refused_topic_or_none(
    broker: BrokerContext,
    requested: MetadataRequestTopic,
    rights: Rights,
    request: MetadataRequest,
) -> MetadataResponseTopic | None:
    """Return the refusal of one topic of Metadata; None if the caller may know of it."""
    topic_service = broker.topic_service
    code = int(Code.TOPIC_AUTHORIZATION_FAILED)
    if requested.topic_id != NO_TOPIC_ID or requested.name is None:
        topic = topic_service.topics.with_id(requested.topic_id)
        if topic is None or rights.allows(DESCRIBE, TOPIC, topic.name):
            return None
        rights.deny(DESCRIBE, TOPIC, topic.name)
        # Ids are no secret, names are one.
        return MetadataResponseTopic(error_code=code, name=None, topic_id=topic.id)
    name = requested.name
    if not rights.allows(DESCRIBE, TOPIC, name):
        rights.deny(DESCRIBE, TOPIC, name)
        return MetadataResponseTopic(error_code=code, name=name)
    may_create = request.allow_auto_topic_creation and broker.settings.auto_create_topics_enable
    if (
        not may_create
        or topic_service.topics.named(name) is not None
        or rights.on_cluster(CREATE)
        or rights.allows(CREATE, TOPIC, name)
    ):
        return None
    rights.deny(CREATE, TOPIC, name)
    return MetadataResponseTopic(
        error_code=code, name=name, is_internal=topic_service.is_internal(name)
    )


def _with_operations(topic: MetadataResponseTopic, rights: Rights) -> MetadataResponseTopic:
    """Return a topic of Metadata with what the caller may do to it, if that was asked for."""
    if topic.name is None or topic.topic_authorized_operations == NOT_REQUESTED:
        return topic
    operations = rights.operations(TOPIC, topic.name)
    return replaced(topic, topic_authorized_operations=operations)


def cluster_operations(as_answered: int, rights: Rights) -> int:
    """Return what the caller may do to the cluster, in place of what holds without ACLs."""
    if as_answered == NOT_REQUESTED:
        return as_answered
    return rights.operations(CLUSTER, CLUSTER_NAME) if rights.on_cluster(DESCRIBE) else 0


@needing(Need(DESCRIBE_CONFIGS, TOPIC, "the settings of a created topic are left out"))
def settings_of_created(_broker: BrokerContext, arrived: Arrived, rights: Rights) -> Checked:
    """Hide the settings of created topics from a caller who may not describe settings."""
    if arrived.version < FIRST_CONFIGS_VERSION:
        return arrived

    def complete(response: CreateTopicsResponse) -> CreateTopicsResponse:
        return replaced(
            response, topics=tuple(_without_settings(topic, rights) for topic in response.topics)
        )

    return completing(arrived, rights, complete)


def _without_settings(topic: CreatableTopicResult, rights: Rights) -> CreatableTopicResult:
    """Return a created topic as the caller may see it."""
    if topic.error_code or rights.allows(DESCRIBE_CONFIGS, TOPIC, topic.name):
        return topic
    return replaced(
        topic,
        topic_config_error_code=int(Code.TOPIC_AUTHORIZATION_FAILED),
        num_partitions=-1,
        replication_factor=-1,
        configs=(),
    )


@needing(
    Need(DELETE, CLUSTER, EACH_IS_CHECKED),
    Need(DELETE, TOPIC),
    Need(DESCRIBE, TOPIC, "refused, without a name if it was given by id"),
)
def delete_topics(broker: BrokerContext, arrived: Arrived, rights: Rights) -> Checked:
    """Check the topics of DeleteTopics: that one may not know of hides also that it is missing."""
    request: DeleteTopicsRequest = arrived.request
    if rights.on_cluster(DELETE):
        return arrived
    has_states = arrived.version >= FIRST_STATE_VERSION
    items: tuple[Any, ...] = request.topics if has_states else request.topic_names
    states = (
        request.topics
        if has_states
        else tuple(DeleteTopicState(name=name) for name in request.topic_names)
    )
    mentions = Counter((state.name, state.topic_id) for state in states)
    left: list[Any] = []
    refusals: list[DeletableTopicResult] = []
    for item, state in zip(items, states, strict=True):
        refusal = None
        # The handler refuses what is named twice, and gives nothing away by that.
        if mentions[state.name, state.topic_id] == 1:
            refusal = _refused_deletion_or_none(broker, state, rights)
        if refusal is None:
            left.append(item)
        else:
            refusals.append(refusal)
    array = ("topics" if has_states else "topic_names", "responses")
    return parted(arrived, rights, Parts(array, left, refusals), asks_anyway=False)


def _refused_deletion_or_none(
    broker: BrokerContext, state: DeleteTopicState, rights: Rights
) -> DeletableTopicResult | None:
    """Return the refusal of one topic of DeleteTopics; None if the handler shall answer."""
    topics = broker.topic_service.topics
    if state.name is not None:
        name, exists = state.name, topics.named(state.name) is not None
    else:
        topic = topics.with_id(state.topic_id)
        if topic is None:
            return None
        name, exists = topic.name, True
    may_know = rights.allows(DESCRIBE, TOPIC, name)
    operation = DELETE if may_know else DESCRIBE
    is_allowed = rights.allows(DELETE, TOPIC, name)
    # A caller who may know of the topic learns that it is missing. An id does not reveal the name.
    if (is_allowed and (may_know or state.name is None)) or (may_know and not exists):
        return None
    is_named = state.name is not None or may_know
    shown = name if is_named else state.topic_id.hex()
    return DeletableTopicResult(
        name=name if is_named else None,
        topic_id=state.topic_id,
        error_code=int(Code.TOPIC_AUTHORIZATION_FAILED),
        error_message=rights.refusal(operation, TOPIC, shown).why,
    )


@needing(
    Need(AclOperation.IDEMPOTENT_WRITE, CLUSTER, "WRITE on some topic is enough"),
    Need(WRITE, TOPIC, "refused, if it is missing for every topic"),
    Need(WRITE, TRANSACTIONAL_ID, "refused, if the request has one"),
)
def init_producer_id(_broker: BrokerContext, arrived: Arrived, rights: Rights) -> Checked:
    """Check the right to a producer id: a caller who may write to any topic has it (KIP-679)."""
    request: InitProducerIdRequest = arrived.request
    transactional_id = request.transactional_id
    if transactional_id is not None:
        if rights.allows(WRITE, TRANSACTIONAL_ID, transactional_id):
            return arrived
        return refused(arrived, rights.refusal(WRITE, TRANSACTIONAL_ID, transactional_id))
    operation = AclOperation.IDEMPOTENT_WRITE
    if rights.on_cluster(operation) or rights.allows_any(WRITE, TOPIC):
        return arrived
    return refused(arrived, rights.refusal(operation, CLUSTER, CLUSTER_NAME))
