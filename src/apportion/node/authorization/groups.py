"""The checks of groups: their members, what they have committed, and their descriptions."""

from typing import TYPE_CHECKING, Any

from apportion.coord.classic_protocol import check_sync_request
from apportion.errors import Code, Refused
from apportion.machine import Arrived
from apportion.node.authorization.checks import (
    Checked,
    InTurn,
    Need,
    OfEach,
    OfGroup,
    Verdict,
    by_verdicts,
    completing,
    needing,
    refused,
)
from apportion.node.authorization.rights import Rights
from apportion.node.broker import BrokerContext
from apportion.node.handlers import cluster
from apportion.security.acls import CLUSTER_NAME, AclOperation, ResourceType
from apportion.wire.fields import replaced
from apportion.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)
from apportion.wire.messages.consumer_group_prepare_assignment import (
    ConsumerGroupPrepareAssignmentResponse,
)
from apportion.wire.messages.describe_groups import NOT_ASKED, DescribeGroupsRequest
from apportion.wire.messages.list_groups import ListGroupsResponse

if TYPE_CHECKING:
    from apportion.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
    from apportion.wire.messages.find_coordinator import FindCoordinatorRequest

READ, DESCRIBE = AclOperation.READ, AclOperation.DESCRIBE
TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
TRANSACTIONAL_ID = ResourceType.TRANSACTIONAL_ID
MEMBERS = OfGroup(READ)
"""The check of what members of a group send."""
COORDINATED = {cluster.GROUP: GROUP, cluster.TRANSACTION: TRANSACTIONAL_ID}
"""What the keys of FindCoordinator name, by coordinator type."""


@needing(
    Need(DESCRIBE, GROUP),
    Need(DESCRIBE, TRANSACTIONAL_ID),
    Need(AclOperation.CLUSTER_ACTION, CLUSTER, "refused, of coordinators of share groups"),
)
def find_coordinator(broker: BrokerContext, arrived: Arrived, rights: Rights) -> Checked:
    """Check each group or transactional id whose coordinator is looked for."""
    request: FindCoordinatorRequest = arrived.request
    if request.key_type == cluster.SHARE:
        operation = AclOperation.CLUSTER_ACTION
        refusal = (
            None
            if rights.on_cluster(operation)
            else rights.refusal(operation, CLUSTER, CLUSTER_NAME)
        )
        verdicts = [Verdict(key, refusal) for key in request.coordinator_keys]
        return by_verdicts(arrived, rights, ("coordinator_keys", "coordinators"), verdicts)
    resource = COORDINATED.get(request.key_type)
    if resource is None:
        return arrived
    if arrived.version >= cluster.FIRST_KEYS_VERSION:
        each = OfEach(DESCRIBE, resource, ("coordinator_keys", "coordinators"), name="")
        return each(broker, arrived, rights)
    if rights.allows(DESCRIBE, resource, request.key):
        return arrived
    return refused(arrived, rights.refusal(DESCRIBE, resource, request.key), is_explained=True)


@needing(*MEMBERS.needs)
def sync_group(broker: BrokerContext, arrived: Arrived, rights: Rights) -> Checked:
    """Check the group of a SyncGroup, but as in Kafka not of one that names no protocol."""
    try:
        check_sync_request(arrived)
    except Refused:
        return arrived  # The handler refuses it before it looks for the group.
    return MEMBERS(broker, arrived, rights)


@needing(Need(DESCRIBE, TOPIC, "refused, if a subscribed topic is named; no expression matches it"))
def subscription(_broker: BrokerContext, arrived: Arrived, rights: Rights) -> Checked:
    """Check the topics to which a heartbeat subscribes; what its expression may match, travels on.

    Any heartbeat may be the one upon which the expressions of its group are resolved.
    """
    request: ConsumerGroupHeartbeatRequest = arrived.request
    for name in request.subscribed_topic_names or ():
        if not rights.allows(DESCRIBE, TOPIC, name):
            return refused(arrived, rights.refusal(DESCRIBE, TOPIC, name))
    return arrived._replace(access=rights.access)


@needing()
def expressions_of_others(_broker: BrokerContext, arrived: Arrived, rights: Rights) -> Checked:
    """Let the expressions of a consumer group match what a classic member that joins may know.

    Its JoinGroup, too, may be the request upon which they are resolved.
    """
    return arrived._replace(access=rights.access)


@needing(
    Need(DESCRIBE, CLUSTER, "only groups are listed that one may describe"),
    Need(DESCRIBE, GROUP, "left out"),
)
def list_groups(_broker: BrokerContext, arrived: Arrived, rights: Rights) -> Checked:
    """Leave groups out of the list that the caller may not describe."""
    if rights.on_cluster(DESCRIBE):
        return arrived

    def complete(response: ListGroupsResponse) -> ListGroupsResponse:
        groups = (
            group for group in response.groups if rights.allows(DESCRIBE, GROUP, group.group_id)
        )
        return replaced(response, groups=tuple(groups))

    return completing(arrived, rights, complete)


@needing()
def operations_of_groups(_broker: BrokerContext, arrived: Arrived, rights: Rights) -> Checked:
    """Describe groups with what the caller may do to them, if that was asked for."""
    request: DescribeGroupsRequest | ConsumerGroupDescribeRequest = arrived.request
    if not request.include_authorized_operations:
        return arrived

    def complete(response: Any) -> Any:
        return replaced(
            response, groups=tuple(_with_operations(group, rights) for group in response.groups)
        )

    return completing(arrived, rights, complete)


def _with_operations(group: Any, rights: Rights) -> Any:
    """Return a described group with what the caller may do to it."""
    if group.authorized_operations == NOT_ASKED:
        return group
    return replaced(group, authorized_operations=rights.operations(GROUP, group.group_id))


@needing(Need(DESCRIBE, TOPIC, "a group is refused in which the topic is assigned"))
def topics_of_groups(_broker: BrokerContext, arrived: Arrived, rights: Rights) -> Checked:
    """Hide consumer groups in which a topic is assigned that the caller may not know of."""

    def complete(response: ConsumerGroupDescribeResponse) -> ConsumerGroupDescribeResponse:
        return replaced(
            response, groups=tuple(_without_topics(group, rights) for group in response.groups)
        )

    return completing(arrived, rights, complete)


def _without_topics(group: DescribedGroup, rights: Rights) -> DescribedGroup:
    """Return a described group, or in its place an error if it would name a hidden topic."""
    names = dict.fromkeys(
        part.topic_name
        for member in group.members
        for assignment in (member.assignment, member.target_assignment)
        for part in assignment.topic_partitions
    )
    hidden = next((name for name in names if not rights.allows(DESCRIBE, TOPIC, name)), None)
    if hidden is None:
        return group
    rights.deny(DESCRIBE, TOPIC, hidden, "ConsumerGroupDescribe")
    return DescribedGroup(
        group_id=group.group_id,
        error_code=int(Code.TOPIC_AUTHORIZATION_FAILED),
        error_message="In this group a topic is assigned that you have no permission to DESCRIBE.",
    )


@needing(Need(DESCRIBE, TOPIC, "refused, if any member of the group subscribes to the topic"))
def topics_to_assign(_broker: BrokerContext, arrived: Arrived, rights: Rights) -> Checked:
    """Hide from a member what it would need to assign a topic that it may not know of."""

    def complete(
        response: ConsumerGroupPrepareAssignmentResponse,
    ) -> ConsumerGroupPrepareAssignmentResponse:
        for topic in response.topics:
            if not rights.allows(DESCRIBE, TOPIC, topic.topic_name):
                rights.deny(DESCRIBE, TOPIC, topic.topic_name, "ConsumerGroupPrepareAssignment")
                # The response names no topic, whichever member asks.
                why = "The group subscribes to a topic that you have no permission to DESCRIBE."
                return ConsumerGroupPrepareAssignmentResponse(
                    error_code=int(Code.TOPIC_AUTHORIZATION_FAILED), error_message=why
                )
        return response

    return completing(arrived, rights, complete)


def describing(array: tuple[str, str]) -> InTurn:
    """Return the check of descriptions of groups, without that of topics."""
    return InTurn(OfEach(DESCRIBE, GROUP, array, name=""), operations_of_groups)
