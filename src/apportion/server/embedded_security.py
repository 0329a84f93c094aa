"""The security of an `EmbeddedBroker`: throw-away certificates, users, and what clients need.

All of it is made when the broker starts and deleted at its end: a certificate authority, the
broker's certificate, and certificates of clients. Keys are in files that their owner alone reads.
"""

import os
import re
import secrets
import shutil
import socket
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from apportion.node.bootstrap import BootstrapMetadata, UserCredential
from apportion.node.settings import SettingRefused
from apportion.security import plain
from apportion.security.acls import AclBinding
from apportion.security.exchange import is_sendable
from apportion.security.names import LOCAL_HOSTS, PROTOCOLS, SecurityProtocol
from apportion.security.scram_credentials import (
    MIN_ITERATIONS,
    ScramMechanism,
    credential_of,
    salted_password,
)
from apportion.server.security_shapes import check_shapes

LOGIN_MODULES = {
    plain.NAME: "org.apache.kafka.common.security.plain.PlainLoginModule",
    **{
        mechanism.value: "org.apache.kafka.common.security.scram.ScramLoginModule"
        for mechanism in ScramMechanism
    },
}
BARE_NAME = re.compile(r"\w+")
DEFAULT_USER = "alice"
PASSWORD_BYTES = 16
NEEDED = "needs the package cryptography: pip install 'apportion[security]'"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSecurity:
    """The security of a broker for tests, which has one listener.

    protocol: SSL, SASL_PLAINTEXT or SASL_SSL. users: passwords by name; without any there is alice,
    whose password is drawn. mechanisms: of PLAIN, SCRAM-SHA-256 and SCRAM-SHA-512; clients are
    offered the first one. needs_client_certificate: for SSL, where a client is then User:CN=NAME.
    super_users: principals as in Kafka, such as User:alice. acls: with any, or with super users,
    nobody may do what no ACL allows; with neither everybody may do everything.

    In a data directory of yours the users of SCRAM and the ACLs of earlier brokers stay: an ACL
    that is left out the next time still allows. A user who is given again has the new password.
    """

    protocol: str = "SASL_SSL"
    users: Mapping[str, str] = field(default_factory=dict, repr=False)
    mechanisms: Sequence[str] = ("SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN")
    needs_client_certificate: bool = False
    super_users: Sequence[str] = ()
    acls: Sequence[AclBinding] = ()


class EmbeddedSecurity:
    """The certificates and users of one embedded broker; `close` deletes the files.

    protocol: of its listener. ca_location: the file of the authority that clients must trust; ""
    without TLS. users: passwords by name.
    """

    def __init__(self, wanted: str | BrokerSecurity, listen: str) -> None:
        """Make certificates and passwords. listen: HOST:PORT. Errors: SettingRefused."""
        wanted = BrokerSecurity(protocol=wanted) if isinstance(wanted, str) else wanted
        if not isinstance(wanted, BrokerSecurity):
            raise SettingRefused(
                "security must be a protocol, such as 'SASL_SSL', or a BrokerSecurity of "
                f"apportion.broker, and is of type {type(wanted).__name__}."
            )
        self._wanted = _checked(wanted)
        if "/" in listen or "," in listen:
            raise SettingRefused("give listeners as HOST:PORT: security has the protocol.")
        self._listen = listen
        self.protocol = SecurityProtocol(wanted.protocol)
        self.users = dict(wanted.users)
        if self.protocol.has_sasl and not self.users:
            self.users = {DEFAULT_USER: secrets.token_urlsafe(PASSWORD_BYTES)}
        self.ca_location = self._store = self._directory = ""
        if not self.protocol.has_tls:
            return
        try:
            from apportion.server.certificates import CertificateAuthority
        except ImportError:
            raise SettingRefused(f"security with TLS {NEEDED}.") from None
        self._authority = CertificateAuthority("apportion's throw-away CA")
        self._directory = tempfile.mkdtemp(prefix="apportion-keys-")
        hosts = dict.fromkeys(
            (*LOCAL_HOSTS, socket.gethostname(), listen.rpartition(":")[0].strip("[]"))
        )
        hosts.pop("", None)  # all addresses
        issued = self._authority.issue("broker", tuple(hosts))
        self.ca_location = self._written("ca.pem", self._authority.pem)
        self._store = self._written("broker.pem", issued.key_pem() + issued.chain_pem())

    def settings(self) -> dict[str, str]:
        """Return the broker's settings by Kafka's names."""
        wanted, found = self._wanted, {"listeners": f"{self.protocol.value}://{self._listen}"}
        if self.protocol.has_tls:
            found |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": self._store}
        if wanted.needs_client_certificate:
            found |= {
                "ssl.client.auth": "required",
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": self.ca_location,
            }
        if self.protocol.has_sasl:
            found["sasl.enabled.mechanisms"] = ",".join(wanted.mechanisms)
            if plain.NAME in wanted.mechanisms:
                listener = f"listener.name.{self.protocol.value.lower()}"
                users = {f"user_{name}": password for name, password in self.users.items()}
                found[f"{listener}.plain.sasl.jaas.config"] = _jaas(plain.NAME, users)
        if wanted.super_users or wanted.acls:
            found["authorizer.class.name"] = "StandardAuthorizer"
            found["super.users"] = ";".join(wanted.super_users)
        return found

    def bootstrap(self) -> BootstrapMetadata:
        """Return the users of SCRAM and the ACLs.

        The users' passwords replace those in the directory; ACLs are added to its own.
        """
        credentials = []
        for mechanism in ScramMechanism if self.protocol.has_sasl else ():
            for user, password in self.users.items():
                if mechanism.value in self._wanted.mechanisms:
                    salt = os.urandom(mechanism.hash_bytes)
                    salted = salted_password(mechanism, password, salt, MIN_ITERATIONS)
                    credential = credential_of(mechanism, salted, salt, MIN_ITERATIONS)
                    credentials.append(UserCredential(mechanism, user, credential))
        return BootstrapMetadata(tuple(credentials), tuple(self._wanted.acls), replaces=True)

    def client_options(self, user: str | None, mechanism: str | None) -> dict[str, str]:
        """Return the options of a client of that user, with librdkafka's names and underscores.

        Raises ValueError for a user, or a mechanism, that there is not.
        """
        found = {"security_protocol": self.protocol.value}
        if self.ca_location:
            found["ssl_ca_location"] = self.ca_location
        if self.protocol.has_sasl:
            name, password = self._login(user)
            found |= {
                "sasl_mechanism": self._mechanism(mechanism),
                "sasl_username": name,
                "sasl_password": password,
            }
        elif self._wanted.needs_client_certificate:
            store = self._client_store(user or DEFAULT_USER)
            found |= {"ssl_certificate_location": store, "ssl_key_location": store}
        return found

    def client_properties(self, user: str | None, mechanism: str | None) -> dict[str, str]:
        """Return the same with the names of Kafka's Java clients.

        Raises ValueError for a user, or a mechanism, that there is not.
        """
        found = {"security.protocol": self.protocol.value}
        if self.ca_location:
            found |= {
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": self.ca_location,
            }
        if self.protocol.has_sasl:
            name, password = self._login(user)
            chosen = self._mechanism(mechanism)
            login = {"username": name, "password": password}
            found |= {"sasl.mechanism": chosen, "sasl.jaas.config": _jaas(chosen, login)}
        elif self._wanted.needs_client_certificate:
            found |= {
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": self._client_store(user or DEFAULT_USER),
            }
        return found

    def close(self) -> None:
        """Delete the certificates and keys."""
        if self._directory:
            shutil.rmtree(self._directory, ignore_errors=True)

    def _login(self, user: str | None) -> tuple[str, str]:
        name = next(iter(self.users)) if user is None else user
        if name not in self.users:
            raise ValueError(f"there is no user {name!r}: there are {', '.join(self.users)}")
        return name, self.users[name]

    def _mechanism(self, mechanism: str | None) -> str:
        offered = self._wanted.mechanisms
        chosen = offered[0] if mechanism is None else mechanism
        if chosen not in offered:
            raise ValueError(f"the broker has no mechanism {chosen!r}: it has {', '.join(offered)}")
        return chosen

    def _client_store(self, user: str) -> str:
        """Return a file with a client's key and certificate, made at the first call."""
        if not user or "/" in user or user.startswith("."):
            raise ValueError(f"a client's certificate is in a file, so {user!r} cannot be its name")
        name = f"client-{user}.pem"
        path = Path(self._directory, name)
        if path.exists():
            return str(path)
        issued = self._authority.issue(user)
        return self._written(name, issued.key_pem() + issued.chain_pem())

    def _written(self, name: str, text: str) -> str:
        """Return the path of a new file that its owner alone may read."""
        path = Path(self._directory, name)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(text)
        return str(path)


def _checked(wanted: BrokerSecurity) -> BrokerSecurity:
    """Return what is wanted, if it fits together. Errors: SettingRefused, without a password."""
    protocols = [each for each in PROTOCOLS if each != SecurityProtocol.PLAINTEXT.value]
    if wanted.protocol not in protocols:
        raise SettingRefused(f"security must be {', '.join(protocols)}, not {wanted.protocol!r}.")
    check_shapes(wanted)
    protocol = SecurityProtocol(wanted.protocol)
    for mechanism in wanted.mechanisms:
        if mechanism not in LOGIN_MODULES:
            raise SettingRefused(
                f"security has the mechanism {mechanism!r}; there are "
                f"{', '.join(LOGIN_MODULES)}, and others by the broker's settings."
            )
    if protocol.has_sasl and not wanted.mechanisms:
        raise SettingRefused("security has no mechanism.")
    if wanted.users and not protocol.has_sasl:
        raise SettingRefused(f"security has users, and {protocol.value} no SASL.")
    texts = [each for pair in wanted.users.items() for each in pair]
    if not all(isinstance(each, str) and each for each in texts):
        raise SettingRefused("security has a user without a name or a password.")
    if not all(is_sendable(each) for each in texts):
        raise SettingRefused(
            "security has a user with NUL or a lone surrogate in the name or the password."
        )
    if wanted.needs_client_certificate and protocol is not SecurityProtocol.SSL:
        raise SettingRefused("security needs client certificates with the protocol SSL alone.")
    for principal in wanted.super_users:
        if not principal.startswith("User:"):
            raise SettingRefused(f"super_users has {principal!r}: write User:{principal}.")
    return wanted


def _jaas(mechanism: str, options: Mapping[str, str]) -> str:
    """Return a login, or the users of PLAIN, as `sasl.jaas.config`."""
    # Java's clients know names without quotation marks; a user of PLAIN may have any name.
    named = " ".join(
        f"{name if BARE_NAME.fullmatch(name) else _quoted(name)}={_quoted(value)}"
        for name, value in options.items()
    )
    return f"{LOGIN_MODULES[mechanism]} required {named};"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
