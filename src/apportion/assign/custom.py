"""The interface of custom server-side assignors."""

from collections.abc import Mapping
from typing import Any, Protocol

from apportion.assign.by_name import ClusterTopics, Subscription


class CustomAssignor(Protocol):
    """An assignor from outside the package, which a broker runs for its consumer groups.

    One object serves all groups, on several threads. `apportion.assignors.Assignor` has the same
    two members, so one class can serve on either side.
    """

    @property
    def name(self) -> str:
        """The name for which members vote (ServerAssignor)."""
        ...

    def assign(self, cluster: ClusterTopics, members: Mapping[str, Subscription]) -> Any:
        """Return a `Given` for each member id; a member that is left out is assigned nothing."""
        ...
