"""The security of a client's connections, as one value: TLS, and a SASL login.

The values hold what a client was given, and no socket, file or token. Each can be pickled, for the
executors of a Spark query; the `repr` of none has a secret in it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from apportion.security import oauthbearer
from apportion.security.key_stores import TLS_VERSIONS, KeyStore
from apportion.security.names import SecurityProtocol, protocol_of


@dataclass(frozen=True, slots=True)
class ClientIdentity:
    """The certificate by which a client shows who it is (mTLS).

    certificate: with its chain. key: its key; None where that is in the same store.
    """

    certificate: KeyStore
    key: KeyStore | None = None


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """The TLS of a client.

    trusted: the CA certificates; None for those of the system. checks_certificate: whether brokers
    must have a certificate of one of these. checks_host_name: whether it must name the host.
    """

    trusted: KeyStore | None = None
    identity: ClientIdentity | None = None
    checks_certificate: bool = True
    checks_host_name: bool = True
    versions: tuple[str, ...] = TLS_VERSIONS


@dataclass(frozen=True, slots=True)
class PasswordLogin:
    """A user with a password, for PLAIN and SCRAM."""

    mechanism: str
    name: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class ClientCredentials:
    """The OAuth server that gives a program its tokens (RFC 6749, section 4.4; KIP-768).

    trusted: the CA certificates of that server; None for those of the system.
    """

    token_url: str
    client_id: str
    client_secret: str = field(repr=False)
    scope: str = ""
    extensions: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    trusted: KeyStore | None = None


@dataclass(frozen=True, slots=True)
class TokenFunction:
    """A function of the user's that returns a token.

    function: itself, or as "module:function". config: its argument.
    """

    function: str | Callable[[str], Any]
    config: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class TokenLogin:
    """A login by tokens, for OAUTHBEARER."""

    source: ClientCredentials | TokenFunction
    mechanism: str = oauthbearer.NAME


@dataclass(frozen=True, slots=True)
class BearerToken:
    """A token for OAUTHBEARER.

    expires_at_s: on the wall clock, in seconds; None if that is not known.
    """

    text: str = field(repr=False)
    expires_at_s: float | None = None
    extensions: Mapping[str, str] = field(default_factory=dict, repr=False)


SaslLogin = PasswordLogin | TokenLogin


class OptionNames(NamedTuple):
    """The names of a client's options, as its user writes them: for the sentences of errors.

    The fields are meanings of `SecurityFields`; the defaults are the names of Kafka's own clients.
    certificate, key: of PEM files where the client has such options, else of the PEM itself. Empty
    for an option that the client does not have.
    """

    protocol: str = "security.protocol"
    mechanism: str = "sasl.mechanism"
    ca_location: str = "ssl.truststore.location"
    endpoint_identification: str = "ssl.endpoint.identification.algorithm"
    keystore_location: str = "ssl.keystore.location"
    certificate: str = "ssl.keystore.certificate.chain"
    key: str = "ssl.keystore.key"
    key_password: str = "ssl.key.password"
    ca_type: str = "ssl.truststore.type"
    keystore_type: str = "ssl.keystore.type"


KAFKA_NAMES = OptionNames()


@dataclass(frozen=True, slots=True)
class ClientSecurity:
    """The security of a client's connections.

    tls: None for plain ones. login: None where brokers ask for none. names: of the options, which
    say nothing of the security itself.
    """

    tls: TlsSettings | None = None
    login: SaslLogin | None = None
    names: OptionNames = field(default=KAFKA_NAMES, repr=False, compare=False)

    @property
    def protocol(self) -> SecurityProtocol:
        """Return the security protocol that it has."""
        return protocol_of(has_tls=self.tls is not None, has_sasl=self.login is not None)


PLAINTEXT = ClientSecurity()
