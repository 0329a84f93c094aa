"""The security of an `EmbeddedBroker`: throw-away certificates, users, and what clients need.

All of it is made when the broker starts and deleted at its end: a certificate authority, the
broker's certificate, certificates of clients, and a key that signs tokens. Private keys are in
files that their owner alone reads, or in none.
"""

import os
import secrets
import shutil
import socket
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from apportion.exports import install_command
from apportion.node.bootstrap import BootstrapMetadata, UserCredential
from apportion.node.settings import SettingRefused
from apportion.security import oauthbearer, plain
from apportion.security.acls import AclBinding
from apportion.security.claims import unsecured_token
from apportion.security.exchange import is_sendable
from apportion.security.jaas import jaas_of
from apportion.security.names import LOCAL_HOSTS, MECHANISMS, PROTOCOLS, SecurityProtocol
from apportion.security.scram_credentials import (
    MIN_ITERATIONS,
    ScramMechanism,
    credential_of,
    salted_password,
)
from apportion.server.security_shapes import check_shapes

DEFAULT_USER = "alice"
PASSWORD_BYTES = 16
TOKEN_LIFETIME_S = 3_600.0
NEEDED = f"needs the packages of {install_command('security')}"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSecurity:
    """The security of a broker for tests, which has one listener.

    protocol: SSL, SASL_PLAINTEXT or SASL_SSL. users: passwords by name; without any there is alice,
    whose password is drawn. mechanisms: of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 and OAUTHBEARER;
    clients are offered the first one. With OAUTHBEARER a client with a token of the broker's
    `token` is its user, and users need no password. unsecured_tokens: tokens have no signature, so
    anybody makes them, as Kafka's own clients do for tests. needs_client_certificate: for SSL: a
    client is then User:CN=NAME. super_users: principals as in Kafka, such as User:alice. acls: with
    any, or with super users, nobody may do what no ACL allows; with neither everybody may do
    everything.

    In a data directory of yours the users of SCRAM and the ACLs of earlier brokers stay: an ACL
    that is left out the next time still allows. A user who is given again has the new password.
    """

    protocol: str = "SASL_SSL"
    users: Mapping[str, str] = field(default_factory=dict, repr=False)
    mechanisms: Sequence[str] = ("SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN")
    unsecured_tokens: bool = False
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
        self._mechanisms = tuple(wanted.mechanisms) if self.protocol.has_sasl else ()
        self.users = dict(wanted.users)
        if self.protocol.has_sasl and not self.users and _has_passwords(wanted):
            self.users = {DEFAULT_USER: secrets.token_urlsafe(PASSWORD_BYTES)}
        self.ca_location = self._store = self._key_set = self._directory = ""
        self._encoded = unsecured_token
        try:
            if oauthbearer.NAME in self._mechanisms and not wanted.unsecured_tokens:
                self._make_token_key()
            if self.protocol.has_tls:
                self._make_certificate()
        except ImportError:
            raise SettingRefused(f"security with TLS, or with tokens, {NEEDED}.") from None

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
            found["sasl.enabled.mechanisms"] = ",".join(self._mechanisms)
            if self._key_set:
                found["sasl.oauthbearer.jwks.endpoint.url"] = Path(self._key_set).as_uri()
            if wanted.unsecured_tokens:
                found["apportion.oauthbearer.unsecured"] = "true"
            if plain.NAME in self._mechanisms:
                listener = f"listener.name.{self.protocol.value.lower()}"
                users = {f"user_{name}": password for name, password in self.users.items()}
                found[f"{listener}.plain.sasl.jaas.config"] = jaas_of(plain.NAME, users)
        if wanted.super_users or wanted.acls:
            found["authorizer.class.name"] = "StandardAuthorizer"
            found["super.users"] = ";".join(wanted.super_users)
        return found

    def bootstrap(self) -> BootstrapMetadata:
        """Return the users of SCRAM and the ACLs.

        The users' passwords replace those in the directory; ACLs are added to its own.
        """
        credentials = []
        for mechanism in ScramMechanism:
            for user, password in self.users.items():
                if mechanism.value in self._mechanisms:
                    salt = os.urandom(mechanism.hash_bytes)
                    salted = salted_password(mechanism, password, salt, MIN_ITERATIONS)
                    credential = credential_of(mechanism, salted, salt, MIN_ITERATIONS)
                    credentials.append(UserCredential(mechanism, user, credential))
        return BootstrapMetadata(tuple(credentials), tuple(self._wanted.acls), replaces=True)

    def token(self, user: str, lifetime_s: float, claims: Mapping[str, Any]) -> str:
        """Return a token of the user, which is over after that time.

        claims: what it says besides, or instead. Raises ValueError where there is no OAUTHBEARER.
        """
        self._mechanism(oauthbearer.NAME)
        now_s = time.time()
        return self._encoded({"sub": user, "iat": now_s, "exp": now_s + lifetime_s, **claims})

    def client_options(self, user: str | None, mechanism: str | None) -> dict[str, Any]:
        """Return the options of a client of that user, with librdkafka's names and underscores.

        Raises ValueError for a user, or a mechanism, that there is not.
        """
        found: dict[str, Any] = {"security_protocol": self.protocol.value}
        if self.ca_location:
            found["ssl_ca_location"] = self.ca_location
        if self.protocol.has_sasl:
            chosen = found["sasl_mechanism"] = self._mechanism(mechanism)
            if chosen == oauthbearer.NAME:
                found["oauth_cb"] = self._token_function(self._token_user(user))
            else:
                found["sasl_username"], found["sasl_password"] = self._login(user)
        elif self._wanted.needs_client_certificate:
            store = self._client_store(user or DEFAULT_USER)
            found |= {"ssl_certificate_location": store, "ssl_key_location": store}
        return found

    def client_properties(self, user: str | None, mechanism: str | None) -> dict[str, str]:
        """Return the same with the names of Kafka's Java clients.

        Raises ValueError for a user, or a mechanism, that there is not, and for signed tokens.
        """
        found = {"security.protocol": self.protocol.value}
        if self.ca_location:
            found |= {
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": self.ca_location,
            }
        if self.protocol.has_sasl:
            chosen = self._mechanism(mechanism)
            login = self._java_login(user, chosen)
            found |= {"sasl.mechanism": chosen, "sasl.jaas.config": jaas_of(chosen, login)}
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

    def _make_token_key(self) -> None:
        """Make the key that signs tokens. Raises ImportError."""
        from apportion.server.signed_tokens import SignedTokens

        tokens = SignedTokens()
        self._encoded = tokens.token
        self._key_set = self._written("tokens.json", tokens.key_set())

    def _make_certificate(self) -> None:
        """Make the authority, and the broker's certificate. Raises ImportError."""
        from apportion.server.certificates import CertificateAuthority

        self._authority = CertificateAuthority("apportion's throw-away CA")
        hosts = dict.fromkeys(
            (*LOCAL_HOSTS, socket.gethostname(), self._listen.rpartition(":")[0].strip("[]"))
        )
        hosts.pop("", None)  # all addresses
        issued = self._authority.issue("broker", tuple(hosts))
        self.ca_location = self._written("ca.pem", self._authority.pem)
        self._store = self._written("broker.pem", issued.key_pem() + issued.chain_pem())

    def _login(self, user: str | None) -> tuple[str, str]:
        name = next(iter(self.users)) if user is None else user
        if name not in self.users:
            raise ValueError(f"there is no user {name!r}: there are {', '.join(self.users)}")
        return name, self.users[name]

    def _token_user(self, user: str | None) -> str:
        """Return whose token a client gets: anybody's, as with certificates."""
        return next(iter(self.users), DEFAULT_USER) if user is None else user

    def _token_function(self, user: str) -> Callable[[Any], tuple[str, float]]:
        """Return the function from which a client has its tokens."""
        return lambda _config: (
            self.token(user, TOKEN_LIFETIME_S, {}),
            time.time() + TOKEN_LIFETIME_S,
        )

    def _java_login(self, user: str | None, mechanism: str) -> dict[str, str]:
        """Return the options of a login module of Java. Raises ValueError."""
        if mechanism != oauthbearer.NAME:
            name, password = self._login(user)
            return {"username": name, "password": password}
        if not self._wanted.unsecured_tokens:
            raise ValueError(
                "properties of Java have no token that is signed: make the broker with "
                "BrokerSecurity(unsecured_tokens=True), or give another mechanism"
            )
        return {"unsecuredLoginStringClaim_sub": self._token_user(user)}

    def _mechanism(self, mechanism: str | None) -> str:
        offered = self._mechanisms
        chosen = offered[0] if mechanism is None and offered else mechanism
        if chosen is None or chosen not in offered:
            there_are = ", ".join(offered) or "none"
            raise ValueError(f"the broker has no mechanism {chosen!r}: it has {there_are}")
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
        self._directory = self._directory or tempfile.mkdtemp(prefix="apportion-keys-")
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
        if mechanism not in MECHANISMS:
            raise SettingRefused(
                f"security has the mechanism {mechanism!r}; there are {', '.join(MECHANISMS)}."
            )
    if protocol.has_sasl and not wanted.mechanisms:
        raise SettingRefused("security has no mechanism.")
    if wanted.users and not protocol.has_sasl:
        raise SettingRefused(f"security has users, and {protocol.value} no SASL.")
    if wanted.users and not _has_passwords(wanted):
        raise SettingRefused("security has users with passwords, and OAUTHBEARER takes tokens.")
    if wanted.unsecured_tokens and oauthbearer.NAME not in wanted.mechanisms:
        raise SettingRefused("security has unsecured_tokens, and no mechanism OAUTHBEARER.")
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


def _has_passwords(wanted: BrokerSecurity) -> bool:
    """Return whether there is a mechanism by which users log in with passwords."""
    return any(each != oauthbearer.NAME for each in wanted.mechanisms)
