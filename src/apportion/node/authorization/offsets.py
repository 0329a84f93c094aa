"""The check of OffsetFetch, which names groups, and in each of them topics, or all."""

from collections.abc import Iterable

from apportion.machine import Arrived
from apportion.node.authorization.checks import (
    Checked,
    Need,
    OfGroup,
    completing,
    needing,
    refused_elements,
)
from apportion.node.authorization.rights import Rights
from apportion.node.broker import Answer, BrokerContext
from apportion.security.acls import AclOperation, ResourceType
from apportion.topics import Topics
from apportion.wire.fields import replaced
from apportion.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponseTopic,
)

DESCRIBE, TOPIC, GROUP = AclOperation.DESCRIBE, ResourceType.TOPIC, ResourceType.GROUP
FIRST_GROUPS_VERSION = 8  # the first version with several groups
FIRST_ID_VERSION = 10  # the first version in which topics have ids
NAMED = OfGroup(DESCRIBE)

AskedTopics = tuple[OffsetFetchRequestTopic, ...] | None


@needing(
    Need(DESCRIBE, GROUP),
    Need(DESCRIBE, TOPIC, "a named topic is refused; of all topics it is left out"),
)
def offset_fetch(broker: BrokerContext, arrived: Arrived, rights: Rights) -> Checked:
    """Check the groups of an OffsetFetch, and the topics that are named in them."""
    visible = VisibleTopics(broker.topic_service.topics, rights, arrived)
    request: OffsetFetchRequest = arrived.request
    if arrived.version >= FIRST_GROUPS_VERSION:
        return _of_groups(arrived, rights, visible)
    outcome = NAMED(broker, arrived, rights)
    if type(outcome) is not Arrived:
        return outcome
    left, hidden = visible.parted(request.topics)

    def complete(response: OffsetFetchResponse) -> OffsetFetchResponse:
        if response.error_code:
            return response
        return replaced(response, topics=(*visible.of(response.topics), *hidden))

    if hidden:
        arrived = arrived._replace(request=replaced(request, topics=left))
    return completing(arrived, rights, complete) if hidden or left is None else arrived


def _of_groups(arrived: Arrived, rights: Rights, visible: "VisibleTopics") -> Checked:
    """Check a request with several groups; of each that is left, its topics."""
    request: OffsetFetchRequest = arrived.request
    left: list[OffsetFetchRequestGroup] = []
    refused: list[OffsetFetchResponseGroup] = []
    hidden: dict[str, list[OffsetFetchResponseTopic]] = {}
    for group in request.groups:
        if not rights.allows(DESCRIBE, GROUP, group.group_id):
            code = int(rights.refusal(DESCRIBE, GROUP, group.group_id).code)
            refused.append(OffsetFetchResponseGroup(group_id=group.group_id, error_code=code))
            continue
        topics, hidden_topics = visible.parted(group.topics)
        hidden.setdefault(group.group_id, []).extend(hidden_topics)
        left.append(replaced(group, topics=topics) if hidden_topics else group)
    if not refused and not any(hidden.values()) and all(g.topics is not None for g in left):
        return arrived

    def complete(response: OffsetFetchResponse) -> OffsetFetchResponse:
        # A group that is named twice has its refusals with its first answer.
        unsaid = dict(hidden)
        groups = tuple(
            group
            if group.error_code
            else replaced(
                group, topics=(*visible.of(group.topics), *unsaid.pop(group.group_id, ()))
            )
            for group in response.groups
        )
        return replaced(response, groups=(*groups, *refused))

    if not left:
        return Answer(complete(OffsetFetchResponse()))
    smaller = replaced(request, groups=tuple(left))
    return completing(arrived._replace(request=smaller), rights, complete)


class VisibleTopics:
    """Tells which topics of an OffsetFetch its caller may know of."""

    __slots__ = ("_arrived", "_rights", "_topics")

    def __init__(self, topics: Topics, rights: Rights, arrived: Arrived) -> None:
        self._topics = topics
        self._rights = rights
        self._arrived = arrived

    def of(
        self, answered: Iterable[OffsetFetchResponseTopic]
    ) -> Iterable[OffsetFetchResponseTopic]:
        """Return the topics of a response that the caller may know of."""
        return (topic for topic in answered if self._may_know(topic.name, topic.topic_id))

    def parted(self, asked: AskedTopics) -> tuple[AskedTopics, list[OffsetFetchResponseTopic]]:
        """Return the topics to ask for, and the answers to all others; None asks for all."""
        if asked is None:
            return None, []
        left: list[OffsetFetchRequestTopic] = []
        hidden: list[OffsetFetchResponseTopic] = []
        refused = refused_elements(self._arrived, "topics")
        for topic in asked:
            name = self._name_or_none(topic.name, topic.topic_id)
            if name is None or self._rights.allows(DESCRIBE, TOPIC, name):
                left.append(topic)
            else:
                refusal = self._rights.refusal(DESCRIBE, TOPIC, name)
                hidden.append(refused(topic, refusal))
        return tuple(left), hidden

    def _may_know(self, name: str, topic_id: bytes) -> bool:
        """Return whether the caller may know of a topic, or no topic has this id."""
        found = self._name_or_none(name, topic_id)
        return found is None or self._rights.allows(DESCRIBE, TOPIC, found)

    def _name_or_none(self, name: str, topic_id: bytes) -> str | None:
        """Return the name of a topic that a request or a response has; None for an unknown id."""
        if self._arrived.version < FIRST_ID_VERSION:
            return name
        topic = self._topics.with_id(topic_id)
        return None if topic is None else topic.name
