"""The gate in front of the handlers: every request passes its check first."""

from apportion.machine import Arrived
from apportion.node.authorization.checks import Checked
from apportion.node.authorization.rights import RightsOfCallers
from apportion.node.authorization.table import CHECKS
from apportion.node.broker import BrokerContext
from apportion.security.authorizer import Authorizer


class Gate:
    """Checks requests, and remembers what was decided by the present ACLs."""

    __slots__ = ("_broker", "_rights")

    def __init__(self, broker: BrokerContext) -> None:
        self._broker = broker
        self._rights = RightsOfCallers()

    def check(self, authorizer: Authorizer, arrived: Arrived) -> Checked:
        """Return what the handler may see of the request, or the answer if it may not see it."""
        rights = self._rights.of(authorizer, arrived.caller)
        return CHECKS[type(arrived.request)](self._broker, arrived, rights)
