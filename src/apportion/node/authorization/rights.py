"""The rights of callers, and the broker's memory of what was decided about them.

An authorizer is a value that is made anew with each change of the ACLs, so what it has decided for
a principal, a host and a resource holds as long as the broker has that authorizer. A steady
heartbeat or fetch finds its decision in a dictionary.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from apportion.errors import Code, Refused
from apportion.machine import Caller
from apportion.node.authorization.denials import Denials
from apportion.security.acls import (
    CLUSTER_NAME,
    AclOperation,
    ResourceType,
    host_in_acls,
)
from apportion.security.authorizer import Authorizer

MOST_CALLERS = 1_024
MOST_DECISIONS = 65_536
LONGEST_NAME = 255
"""Decisions about longer names are not kept: a group id may have many thousand characters."""

MAX_IN_RESPONSE = 300
"""Of longer names this much is quoted: old versions have no place for more than 32,767 bytes."""

CODES = {
    ResourceType.TOPIC: Code.TOPIC_AUTHORIZATION_FAILED,
    ResourceType.GROUP: Code.GROUP_AUTHORIZATION_FAILED,
    ResourceType.CLUSTER: Code.CLUSTER_AUTHORIZATION_FAILED,
    ResourceType.TRANSACTIONAL_ID: Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}
"""The error of a refusal, by what it is about."""

RESOURCES = {
    ResourceType.TOPIC: "topic",
    ResourceType.GROUP: "group",
    ResourceType.CLUSTER: "the cluster",
    ResourceType.TRANSACTIONAL_ID: "transactional id",
}
OPERATIONS = {operation: operation.name for operation in AclOperation}
"""As sentences have them; to ask an enumeration for a name takes longer than all the rest."""

Complete = Callable[[Any], Any]
"""Turns the response of a handler into what the caller may have."""
Decisions = dict[tuple[str, str, int, str], bool]
"""By principal, host, operation and type of the resource as one number, and name."""


@dataclass(frozen=True, slots=True)
class CallerAccess:
    """The access of one request (`machine.Access`), a value that other threads may use as well.

    complete: None if the response is whole as the handler gives it.
    """

    authorizer: Authorizer
    principal: str
    host: str
    complete: Complete | None = None

    def may_describe_topic(self, name: str) -> bool:
        """Return whether the caller may know of the topic."""
        return self.authorizer.allows(
            self.principal, self.host, AclOperation.DESCRIBE, ResourceType.TOPIC, name
        )

    def completed(self, response: Any) -> Any:
        """Return the response with what was refused of its request, and without what is hidden."""
        return response if self.complete is None else self.complete(response)


class Rights:
    """The rights of one principal from one host, by one authorizer.

    access: for a request of which all is allowed.
    """

    __slots__ = ("_authorizer", "_decisions", "_denials", "_host", "_principal", "access")

    def __init__(
        self, principal: str, host: str, authorizer: Authorizer, memory: tuple[Decisions, Denials]
    ) -> None:
        """Begin with what one caller may do.

        memory: of the broker: what was decided, and what is to be logged.
        """
        self._authorizer = authorizer
        self._principal = principal
        self._host = host
        self._decisions, self._denials = memory
        self.access = CallerAccess(authorizer, principal, host)

    def allows(self, operation: AclOperation, resource: ResourceType, name: str) -> bool:
        """Return whether the caller may do this to the resource."""
        # One number, because to hash a member of an enumeration takes longer than all the rest.
        key = (self._principal, self._host, operation * 16 + resource, name)
        decision = self._decisions.get(key)
        if decision is None:
            decision = self._authorizer.allows(
                self._principal, self._host, operation, resource, name
            )
            if len(name) <= LONGEST_NAME:
                # All at once: what steady requests need is back with their next one.
                if len(self._decisions) >= MOST_DECISIONS:
                    self._decisions.clear()
                self._decisions[key] = decision
        return decision

    def allows_any(self, operation: AclOperation, resource: ResourceType) -> bool:
        """Return whether there is a resource of the type to which the caller may do this."""
        return self._authorizer.allows_any(self._principal, self._host, operation, resource)

    def on_cluster(self, operation: AclOperation) -> bool:
        """Return whether the caller may do this to the cluster."""
        return self.allows(operation, ResourceType.CLUSTER, CLUSTER_NAME)

    def operations(self, resource: ResourceType, name: str) -> int:
        """Return what the caller may do to the resource, as the bit field of a description."""
        return self._authorizer.authorized_operations(self._principal, self._host, resource, name)

    def refusal(self, operation: AclOperation, resource: ResourceType, name: str) -> Refused:
        """Return the refusal of an operation, with a sentence for its caller; have it logged."""
        self.deny(operation, resource, name)
        what = RESOURCES[resource]
        if resource != ResourceType.CLUSTER:
            what = f"{what} {name[:MAX_IN_RESPONSE]}"
        who, to_do = self._principal[:MAX_IN_RESPONSE], OPERATIONS[operation]
        return Refused(CODES[resource], f"{who} has no permission for {to_do} on {what}.")

    def deny(
        self, operation: AclOperation, resource: ResourceType, name: str, api: str = ""
    ) -> None:
        """Have it logged that an operation was denied.

        api: of the request; by default the one that is being checked.
        """
        if api:
            self._denials.api = api
        self._denials.add((self._principal, self._host), operation, resource, name)

    def completing(self, complete: Complete) -> CallerAccess:
        """Return the access of a request whose response is not whole as its handler gives it."""
        return CallerAccess(self._authorizer, self._principal, self._host, complete)


class RightsOfCallers:
    """The rights of the callers of late by one authorizer, by principal and host."""

    __slots__ = ("_authorizer", "_by_caller", "_decisions", "_denials")

    def __init__(self, authorizer: Authorizer, denials: Denials) -> None:
        """Know of no caller yet. denials: where those are noted that are to be logged."""
        self._authorizer = authorizer
        self._denials = denials
        self._by_caller: dict[tuple[str, str], Rights] = {}
        self._decisions: Decisions = {}

    def under(self, authorizer: Authorizer) -> "RightsOfCallers":
        """Return the rights by another authorizer, of which nothing is decided yet."""
        return RightsOfCallers(authorizer, self._denials)

    def of(self, caller: Caller) -> Rights:
        """Return what the caller may do."""
        key = (caller.principal, caller.host)
        rights = self._by_caller.get(key)
        if rights is None:
            if len(self._by_caller) >= MOST_CALLERS:
                self._by_caller.clear()
            memory = self._decisions, self._denials
            rights = self._by_caller[key] = Rights(
                caller.principal, host_in_acls(caller.host), self._authorizer, memory
            )
        return rights
