"""The ACLs of one broker, ours or a real Kafka, as a super user changes them by requests."""

from collections.abc import Iterable
from typing import Any

from apportion.client.connection import BrokerConnection
from apportion.client.connection_security import ConnectionSecurity
from apportion.errors import Code
from apportion.security.acls import AclBinding, AclFilter
from apportion.security.client_security import ClientSecurity, PasswordLogin
from apportion.wire.messages.find_coordinator import FindCoordinatorRequest
from tests.kafka.conftest import until
from tests.node.acl_requests import EVERY_ACL, creating, deleting, described, describing

TIMEOUT_MS = 30_000
AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


def connection_to(bootstrap: str, login: PasswordLogin | None = None) -> BrokerConnection:
    host, _, port = bootstrap.rpartition(":")
    security = ConnectionSecurity(ClientSecurity(login=login))
    return BrokerConnection(host, int(port), "acls", TIMEOUT_MS, security=security)


class AclCluster:
    """One broker; close it at the end."""

    def __init__(self, bootstrap: str) -> None:
        self._connection = connection_to(bootstrap)

    def close(self) -> None:
        self._connection.close()

    def call(self, request: Any, version: int | None = None) -> Any:
        return self._connection.call(request, timeout_ms=TIMEOUT_MS, version=version)

    def create(self, acls: Iterable[AclBinding]) -> Any:
        """Create ACLs, and wait until they decide: a real Kafka answers a little earlier."""
        before, given = self.described(), list(acls)
        response = self.call(creating(*given))
        assert all(result.error_code == 0 for result in response.results), response
        expected = sorted({*before, *given})
        until(lambda: self.described() == expected)
        return response

    def delete(self, *filters: AclFilter) -> Any:
        """Delete ACLs, and wait until they decide no more."""
        before = self.described()
        response = self.call(deleting(*filters))
        kept = [acl for acl in before if not any(wanted.matches(acl) for wanted in filters)]
        until(lambda: self.described() == kept)
        return response

    def described(self, wanted: AclFilter = EVERY_ACL) -> list[AclBinding]:
        """The ACLs that match, in order."""
        return sorted(described(self.call(describing(wanted))))

    def await_coordinators(self, groups: Iterable[str]) -> None:
        """Every one of these groups has a coordinator that has read its log."""
        request = FindCoordinatorRequest(key_type=0, coordinator_keys=tuple(groups))
        until(lambda: all(each.error_code == Code.NONE for each in self.call(request).coordinators))
