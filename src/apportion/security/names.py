"""Names for both sides of a connection: security protocols, SASL mechanisms, this machine."""

from enum import Enum

from apportion.security import oauthbearer, plain
from apportion.security.scram_credentials import ScramMechanism


class SecurityProtocol(Enum):
    """The protocol of a listener and its clients: TLS, SASL, both or neither."""

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"

    @property
    def has_tls(self) -> bool:
        """Return whether its bytes are encrypted."""
        return self in (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL)

    @property
    def has_sasl(self) -> bool:
        """Return whether its clients log in by SASL."""
        return self in (SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL)


PROTOCOLS = tuple(each.value for each in SecurityProtocol)
SCRAM_MECHANISMS = tuple(each.value for each in ScramMechanism)
LOCAL_HOSTS = ("localhost", "127.0.0.1", "::1")
"""Names of this machine: what is sent to it needs no TLS."""
MECHANISMS = (plain.NAME, *SCRAM_MECHANISMS, oauthbearer.NAME)


def protocol_of(*, has_tls: bool, has_sasl: bool) -> SecurityProtocol:
    """Return the protocol that has TLS, SASL, both or neither."""
    return next(
        each for each in SecurityProtocol if (each.has_tls, each.has_sasl) == (has_tls, has_sasl)
    )
