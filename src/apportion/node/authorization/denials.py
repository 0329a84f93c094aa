"""Values for log lines of denied requests: who, from where, and what of which resource.

A request may name a million resources. So of each request the first denial is kept, and how many
there are; the driver limits the lines. A check that only chooses what a caller sees, such as that
of a list of all topics, denies nothing.
"""

from dataclasses import dataclass

from apportion.readable import shortened
from apportion.security.acls import AclOperation, ResourceType

MAX_KEPT = 100
"""How much of a name is kept; a principal is the name of a certificate at times."""


@dataclass(slots=True, frozen=True)
class RequestDenied:
    """Log that something of a request was denied for want of a permission.

    host: as ACLs have it. what: the operation and the resource, of the first denial. further: how
    many more denials the request had.
    """

    principal: str
    host: str
    api: str
    what: str
    further: int = 0


class Denials:
    """The denials of one step of the broker.

    api: of the request that is being checked.
    """

    __slots__ = ("_by_request", "api")

    def __init__(self) -> None:
        self.api = ""
        # by principal, host and API: the first denial, and how many there are
        self._by_request: dict[tuple[str, str, str], tuple[str, int]] = {}

    def add(
        self,
        caller: tuple[str, str],
        operation: AclOperation,
        resource: ResourceType,
        name: str,
    ) -> None:
        """Note a denial. caller: the principal and the host."""
        key = (*caller, self.api)
        denied = self._by_request.get(key)
        if denied is None:
            denied = f"{operation.name} on {resource_words(resource, name)}", 0
        self._by_request[key] = denied[0], denied[1] + 1

    def take(self) -> list[RequestDenied]:
        """Return what was denied since the last time."""
        if not self._by_request:
            return []
        taken, self._by_request = self._by_request, {}
        return [
            RequestDenied(shortened(principal, MAX_KEPT), host, api, what, count - 1)
            for (principal, host, api), (what, count) in taken.items()
        ]


def resource_words(resource: ResourceType, name: str) -> str:
    """Return a resource for a line of the log."""
    if resource == ResourceType.CLUSTER:
        return "the cluster"
    return f"the {resource.name.lower().replace('_', ' ')} '{shortened(name, MAX_KEPT)}'"
