"""The kinds of checks of which the table of APIs is made (`table.py`).

A check returns the request to pass on, or its answer. It passes a request on as it came, or the
part of it that is allowed. What was refused travels with the request, as `Arrived.access`, and is
joined to the response when that leaves the node (`node/replies.py`). So nothing has to be forgotten
where a request waits, fails, is rolled back or loses its connection.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

from apportion.errors import Refused
from apportion.machine import Arrived
from apportion.node.authorization.rights import Complete, Rights
from apportion.node.broker import Answer, BrokerContext
from apportion.node.error_responses import (
    ERROR_RESPONSES,
    refused_response,
)
from apportion.security.acls import CLUSTER_NAME, AclOperation, ResourceType
from apportion.wire.error_slots import ElementErrors, ErrorSlots
from apportion.wire.fields import FOREVER, replaced
from apportion.wire.table import api_of

REFUSED, EACH_IS_CHECKED = "refused", "each resource is checked"
"""What happens to a resource, or to the whole request, without the permission."""


class Need(NamedTuple):
    """A permission that an API asks for; `without` says what happens to a caller without it."""

    operation: AclOperation
    resource: ResourceType
    without: str = REFUSED


Checked = Arrived | Answer
"""The request for its handler, or the answer if the handler is not to see it."""


class Check(Protocol):
    """The check of one API."""

    @property
    def needs(self) -> tuple[Need, ...]:
        """The permissions that it asks for, in this order."""
        ...

    def __call__(self, broker: BrokerContext, arrived: Arrived, rights: Rights, /) -> Checked:
        """Return what of the request may go on, or its answer."""
        ...


CheckFunction = Callable[[BrokerContext, Arrived, Rights], Checked]


@dataclass(frozen=True, slots=True)
class FunctionCheck:
    """A check that is a function of its own."""

    needs: tuple[Need, ...]
    function: CheckFunction

    def __call__(self, broker: BrokerContext, arrived: Arrived, rights: Rights) -> Checked:
        """Call the function."""
        return self.function(broker, arrived, rights)


def needing(*needs: Need) -> Callable[[CheckFunction], FunctionCheck]:
    """Make a check of a function; a decorator, which says what permissions the check asks for."""
    return lambda function: FunctionCheck(needs, function)


class InTurn:
    """Several checks, each of what those before it pass on."""

    __slots__ = ("_checks", "needs")

    def __init__(self, *checks: Check) -> None:
        self._checks = checks
        self.needs = tuple(need for check in checks for need in check.needs)

    def __call__(self, broker: BrokerContext, arrived: Arrived, rights: Rights) -> Checked:
        """Ask each check, until one gives the answer."""
        for check in self._checks:
            outcome = check(broker, arrived, rights)
            if type(outcome) is not Arrived:
                return outcome
            arrived = outcome
        return arrived


@dataclass(frozen=True, slots=True)
class Anybody:
    """No check: every caller may ask this."""

    needs: tuple[Need, ...] = ()

    def __call__(self, _broker: BrokerContext, arrived: Arrived, _rights: Rights) -> Checked:
        """Pass the request on."""
        return arrived


@dataclass(frozen=True, slots=True)
class OfGroup:
    """Checks the group that the request names; without the permission all of it is refused."""

    operation: AclOperation

    @property
    def needs(self) -> tuple[Need, ...]:
        """The one permission."""
        return (Need(self.operation, ResourceType.GROUP),)

    def __call__(self, _broker: BrokerContext, arrived: Arrived, rights: Rights) -> Checked:
        """Pass the request on, or refuse it."""
        group_id = arrived.request.group_id
        if rights.allows(self.operation, ResourceType.GROUP, group_id):
            return arrived
        return refused(arrived, rights.refusal(self.operation, ResourceType.GROUP, group_id))


@dataclass(frozen=True, slots=True)
class OfCluster:
    """Checks what is done to the cluster; without the permission all of the request is refused.

    is_explained: the response has the sentence, as Kafka's has one.
    """

    operation: AclOperation
    is_explained: bool = False

    @property
    def needs(self) -> tuple[Need, ...]:
        """The one permission."""
        return (Need(self.operation, ResourceType.CLUSTER),)

    def __call__(self, _broker: BrokerContext, arrived: Arrived, rights: Rights) -> Checked:
        """Pass the request on, or refuse it."""
        if rights.on_cluster(self.operation):
            return arrived
        why = rights.refusal(self.operation, ResourceType.CLUSTER, CLUSTER_NAME)
        return refused(arrived, why, is_explained=self.is_explained)


@dataclass(frozen=True, slots=True)
class OfEach:
    """Checks each element of an array of the request by the resource that it names.

    array: the arrays of the request and of the response. name: the field with the resource's name;
    "" where the element is the name. by_id_from: the first version in which topics have their id
    instead. or_cluster: the operation on the cluster that allows all of them. leaves_twice: what is
    named twice goes to the handler, which refuses that. is_explained: the response has the
    sentence. asks_anyway: the handler is asked even if nothing is left for it.
    """

    operation: AclOperation
    resource: ResourceType
    array: tuple[str, str] = ("topics", "topics")
    name: str = "name"
    by_id_from: int = FOREVER
    or_cluster: AclOperation | None = None
    leaves_twice: bool = False
    is_explained: bool = False
    asks_anyway: bool = False

    @property
    def needs(self) -> tuple[Need, ...]:
        """The permission for each resource, and that on the cluster."""
        each = Need(self.operation, self.resource)
        if self.or_cluster is None:
            return (each,)
        return (Need(self.or_cluster, ResourceType.CLUSTER, EACH_IS_CHECKED), each)

    def __call__(self, broker: BrokerContext, arrived: Arrived, rights: Rights) -> Checked:
        """Pass on the elements that are allowed, and refuse the others."""
        items = getattr(arrived.request, self.array[0])
        names = [self._name_or_none(broker, item, arrived.version) for item in items]
        allowed = [
            name is None or rights.allows(self.operation, self.resource, name) for name in names
        ]
        if all(allowed) or (self.or_cluster is not None and rights.on_cluster(self.or_cluster)):
            return arrived
        mentions = Counter(names) if self.leaves_twice else {}
        verdicts = [
            Verdict(
                item,
                None
                if is_allowed or name is None or mentions.get(name, 1) > 1
                else rights.refusal(self.operation, self.resource, name),
            )
            for item, name, is_allowed in zip(items, names, allowed, strict=True)
        ]
        return by_verdicts(
            arrived,
            rights,
            self.array,
            verdicts,
            is_explained=self.is_explained,
            asks_anyway=self.asks_anyway,
        )

    def _name_or_none(self, broker: BrokerContext, item: Any, version: int) -> str | None:
        """Return the name of an element's resource; None for a topic id that no topic has.

        The handler says so, as to everybody: Kafka takes ids for no secret.
        """
        if version >= self.by_id_from:
            topic = broker.topic_service.topics.with_id(item.topic_id)
            return None if topic is None else topic.name
        name: str = getattr(item, self.name) if self.name else item
        return name


class Verdict(NamedTuple):
    """An element of a request, and why it is refused; None if it is not."""

    item: Any
    refusal: Refused | None


class Parts(NamedTuple):
    """A request in two parts.

    array: the arrays of the request and of the response. left: the elements of the request that are
    allowed. refused: the elements of the response for all others.
    """

    array: tuple[str, str]
    left: Sequence[Any]
    refused: Sequence[Any]


def parted(arrived: Arrived, rights: Rights, parts: Parts, *, asks_anyway: bool) -> Checked:
    """Pass on what is left of a request of which some was refused; answer it if nothing is left."""
    if not parts.refused:
        return arrived
    requested, answered = parts.array

    def complete(response: Any) -> Any:
        # An error of the whole response stands for that of its parts.
        if getattr(response, "error_code", 0):
            return response
        both = (*getattr(response, answered), *parts.refused)
        return replaced(response, **{answered: both})

    if not parts.left and not asks_anyway:
        empty = api_of(type(arrived.request)).response()
        return Answer(complete(empty))
    smaller = replaced(arrived.request, **{requested: tuple(parts.left)})
    return completing(arrived._replace(request=smaller), rights, complete)


def by_verdicts(
    arrived: Arrived,
    rights: Rights,
    array: tuple[str, str],
    verdicts: Sequence[Verdict],
    *,
    is_explained: bool = False,
    asks_anyway: bool = False,
) -> Checked:
    """Pass on what has a good verdict; the rest has an error each, in the shape of the API."""
    refused = refused_elements(arrived, array[1], is_explained=is_explained)
    elements = tuple(
        refused(verdict.item, verdict.refusal)
        for verdict in verdicts
        if verdict.refusal is not None
    )
    left = tuple(verdict.item for verdict in verdicts if verdict.refusal is None)
    return parted(arrived, rights, Parts(array, left, elements), asks_anyway=asks_anyway)


def refused_elements(arrived: Arrived, array: str, *, is_explained: bool = False) -> ElementErrors:
    """Return the refusals of single elements of a request, in an array of its response."""
    slots = ERROR_RESPONSES[type(arrived.request)]
    assert isinstance(slots, ErrorSlots), arrived
    return replace(slots, is_explained=is_explained).elements(array, arrived.version)


def completing(arrived: Arrived, rights: Rights, complete: Complete) -> Arrived:
    """Return the request with one thing more to do to its response, after all there are already."""
    before = arrived.access
    if before is None:
        return arrived._replace(access=rights.completing(complete))
    return arrived._replace(
        access=rights.completing(lambda response: complete(before.completed(response)))
    )


def refused(arrived: Arrived, refusal: Refused, *, is_explained: bool = False) -> Answer:
    """Return the answer to a request that is refused as a whole."""
    return Answer(refused_response(arrived, refusal, is_explained=is_explained))
