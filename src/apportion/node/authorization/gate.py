"""The gate in front of the handlers: every request passes its check first."""

from typing import TYPE_CHECKING

from apportion.machine import Arrived
from apportion.node.broker import BrokerContext
from apportion.security.authorizer import Acls, Authorizer
from apportion.wire.table import api_of

if TYPE_CHECKING:
    from apportion.node.authorization.checks import Checked


class Gate:
    """Checks requests, and remembers what was decided by the present ACLs.

    For a broker with an authorizer; without one there is no gate.
    """

    __slots__ = ("_acls", "_broker", "_checks", "_rights")

    def __init__(self, broker: BrokerContext) -> None:
        # Imported here: the checks of all APIs take 10 ms, and many brokers do without.
        from apportion.node.authorization.rights import RightsOfCallers
        from apportion.node.authorization.table import CHECKS

        self._broker = broker
        self._checks = CHECKS
        self._acls: Acls | None = None
        self._rights = RightsOfCallers(Authorizer(), broker.denials)

    def check(self, arrived: Arrived) -> "Checked":
        """Return what the handler may see of the request, or the answer if it may not see it."""
        broker = self._broker
        acls = broker.topic_service.durable.acls
        # By identity: a value that is made anew with each change. What the broker's settings say of
        # authorization cannot be altered while it runs.
        if acls is not self._acls:
            authorizer = broker.authorizer
            assert authorizer is not None, "a broker without an authorizer has no gate"
            self._acls = acls
            self._rights = self._rights.under(authorizer)
        broker.denials.api = api_of(type(arrived.request)).name
        rights = self._rights.of(arrived.caller)
        return self._checks[type(arrived.request)](broker, arrived, rights)
