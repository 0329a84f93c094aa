"""The listeners of a broker by name, each with its addresses and its security.

As in Kafka: `listeners` has NAME://HOST:PORT for each, `listener.security.protocol.map` the
protocol of each name, and `advertised.listeners` the address that its clients receive. HOST:PORT
alone is the listener PLAINTEXT.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from apportion.coord.config import dotted
from apportion.machine import PLAINTEXT_LISTENER
from apportion.node.sasl_settings import SaslSettings, UnsecuredRules, sasl_settings
from apportion.node.security_settings import (
    PREFIX,
    SecurityByListener,
    SecuritySettings,
)
from apportion.security.key_stores import ClientAuth, KeyStore, StoreKind, pem_lines
from apportion.security.names import PROTOCOLS, SecurityProtocol
from apportion.security.principals import PrincipalRules, principal_rules
from apportion.settings import declared, nearest_or_none

WILDCARDS = ("0.0.0.0", "::")
NAME = re.compile(r"[A-Za-z0-9_-]+")


class Address(NamedTuple):
    """Host and port at which clients reach this broker."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


Advertised = Mapping[str, Address]
"""The address that clients receive, by the name of the listener that they are connected to."""


@dataclass(frozen=True, slots=True)
class ListenerTls:
    """The TLS of a listener.

    certificate: with its chain. key: its key; None where that is in the same store. trusted: the CA
    certificates of clients; None for those of the system. certificate_setting, trusted_setting: the
    settings that gave the stores, for errors.
    """

    certificate: KeyStore
    key: KeyStore | None
    trusted: KeyStore | None
    client_auth: ClientAuth
    versions: tuple[str, ...]
    principal_rules: PrincipalRules
    certificate_setting: str
    trusted_setting: str


@dataclass(frozen=True, slots=True)
class ListenerSecurity:
    """The security of a listener: TLS and SASL, either of which may be None."""

    tls: ListenerTls | None = None
    sasl: SaslSettings | None = None

    @property
    def authenticates(self) -> bool:
        """Return whether clients have to prove who they are."""
        is_mutual = self.tls is not None and self.tls.client_auth is ClientAuth.REQUIRED
        # With tokens that need no signature anybody can be any user.
        needs_login = self.sasl is not None and not isinstance(self.sasl.tokens, UnsecuredRules)
        return needs_login or is_mutual


@dataclass(frozen=True, slots=True)
class Listener:
    """One listener of a broker.

    name: in upper case. host, port: where it binds; port 0 for a free one. advertised: the address
    that its clients receive; None for the one that was bound.
    """

    name: str
    host: str
    port: int
    protocol: SecurityProtocol
    advertised: Address | None
    security: ListenerSecurity

    def __str__(self) -> str:
        return f"{self.name}://{Address(self.host, self.port)}"


class ListenerAddress(NamedTuple):
    """NAME://HOST:PORT of a list of listeners; the name is "" where there was none."""

    name: str
    address: Address


def listeners_of(
    listeners: str, advertised: str, protocol_map: str, security: SecurityByListener
) -> tuple[Listener, ...]:
    """Return the listeners that a broker's settings describe. Errors: ValueError."""
    protocols = _protocols(protocol_map)
    bound = {each.name or PLAINTEXT_LISTENER: each.address for each in parse_listeners(listeners)}
    told = _advertised(advertised, tuple(bound))
    for name in security.own:
        if name.upper() not in bound:
            near = nearest_or_none(name.upper(), bound)
            hint = f"did you mean {near.lower()}?" if near else f"there are {', '.join(bound)}."
            raise ValueError(f"{PREFIX}{name} names no listener of listeners; {hint}")
    found = []
    for name, (host, port) in bound.items():
        if name not in protocols:
            raise ValueError(
                f"listeners has {name}, and listener.security.protocol.map has no protocol for it: "
                f"add {name}:SSL, or another of {_choices()}."
            )
        protocol = protocols[name]
        found.append(
            Listener(
                name, host, port, protocol, told.get(name), _security(name, protocol, security)
            )
        )
    _refuse_unused(found, security)
    return tuple(found)


def parse_listeners(text: str, setting: str = "listeners") -> list[ListenerAddress]:
    """Return name and address of each listener in a list.

    setting: what the user knows it by, such as `listeners` or `advertised.listeners`.
    Errors: ValueError.
    """
    parts = [part.strip() for part in text.split(",") if part.strip()]
    found = []
    for part in parts or [text]:
        name, separator, address = part.rpartition("://")
        host, colon, port = address.rpartition(":")
        if (separator and not NAME.fullmatch(name)) or not colon or not port.isdigit():
            raise ValueError(
                f"{setting} must be HOST:PORT, or NAME://HOST:PORT for each listener, with commas "
                f"between, not {text!r}."
            )
        if int(port) > 65535:
            raise ValueError(
                f"{setting} has port {port}, which is out of range: a port is a number up to 65535."
            )
        bare = host.strip("[]") or WILDCARDS[0]
        found.append(ListenerAddress(name.upper(), Address(bare, int(port))))
    if len(found) > 1 and any(not each.name for each in found):
        raise ValueError(f"{setting} must name each of its listeners, as in SSL://HOST:PORT.")
    for what in (
        [each.name for each in found],
        [str(each.address) for each in found if each.address.port],
    ):
        for each in what:
            if what.count(each) > 1:
                raise ValueError(f"{setting} has {each} twice.")
    return found


def host_and_port(text: str, setting: str) -> Address:
    """Return the one address that a setting has, HOST:PORT. Errors: ValueError."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdigit() or "/" in host or "," in host:
        raise ValueError(f"{setting} must be one HOST:PORT, not {text!r}.")
    return parse_listeners(text, setting)[0].address


def _advertised(text: str, names: tuple[str, ...]) -> dict[str, Address]:
    """Return the addresses of `advertised.listeners` by listener. Errors: ValueError."""
    setting, told = "advertised.listeners", {}
    for name, address in parse_listeners(text, setting) if text.strip() else ():
        if not name and len(names) > 1:
            raise ValueError(
                f"{setting} must name the listener that it is of, as in {names[0]}://HOST:PORT."
            )
        if name and name not in names:
            raise ValueError(
                f"{setting} has {name}, which is no listener of listeners; there are "
                f"{', '.join(names)}."
            )
        if address.host in WILDCARDS:
            raise ValueError(
                f"{setting} has {address}, to which no client can connect: name a host."
            )
        told[name or names[0]] = address
    return told


def _refuse_unused(listeners: list[Listener], security: SecurityByListener) -> None:
    """Refuse settings of TLS or SASL that no listener has: a user who sets one expects an effect.

    Errors: ValueError.
    """
    without = []
    if not any(each.protocol.has_tls for each in listeners):
        without.append(("ssl_", "no listener speaks TLS", "SSL"))
    if not any(each.protocol.has_sasl for each in listeners):
        without += [
            (each, "no listener has SASL", "SASL_SSL") for each in ("sasl_", "connections_")
        ]
    for prefix, why, name in without:
        for setting in declared(SecuritySettings).values():
            value = getattr(security.shared, setting.name)
            if setting.name.startswith(prefix) and value != setting.default:
                raise ValueError(
                    f"{dotted(setting.name)} says nothing while {why}: name one, as in "
                    f"{name}://HOST:PORT."
                )


def _protocols(text: str) -> dict[str, SecurityProtocol]:
    """Return the protocol of each listener's name. Errors: ValueError."""
    setting, protocols = "listener.security.protocol.map", {}
    for part in (each.strip() for each in text.split(",") if each.strip()):
        name, colon, protocol = (each.strip().upper() for each in part.partition(":"))
        if not colon or not NAME.fullmatch(name):
            raise ValueError(f"{setting} must be NAME:PROTOCOL, with commas between, not {part!r}.")
        if protocol not in PROTOCOLS:
            raise ValueError(f"{setting} has {part!r}; the protocols are {_choices()}.")
        if name in protocols:
            raise ValueError(f"{setting} has {name} twice.")
        protocols[name] = SecurityProtocol(protocol)
    return protocols


def _choices() -> str:
    return ", ".join(PROTOCOLS)


def _security(
    name: str, protocol: SecurityProtocol, security: SecurityByListener
) -> ListenerSecurity:
    """Return the security of one listener. Errors: ValueError."""
    return ListenerSecurity(
        _tls(name, protocol, security) if protocol.has_tls else None,
        sasl_settings(name, security) if protocol.has_sasl else None,
    )


def _tls(name: str, protocol: SecurityProtocol, security: SecurityByListener) -> ListenerTls:
    """Return the TLS of one listener, whose files are not read here. Errors: ValueError."""
    settings = security.of_listener(name)
    certificate, key, certificate_setting = _identity(name, settings, security)
    trusted, trusted_setting = None, "ssl.truststore.location"
    kind = StoreKind(settings.ssl_truststore_type)
    if settings.ssl_truststore_certificates:
        trusted = KeyStore(StoreKind.PEM, text=pem_lines(settings.ssl_truststore_certificates))
        trusted_setting = "ssl.truststore.certificates"
    elif settings.ssl_truststore_location:
        password = settings.ssl_truststore_password or None
        trusted = KeyStore(kind, settings.ssl_truststore_location, password=password)
    auth, auth_setting = ClientAuth(settings.ssl_client_auth), "ssl.client.auth"
    # As in Kafka: a client that logs in by SASL needs no certificate, unless this listener's own
    # setting asks for one.
    if protocol.has_sasl and security.label(name, auth_setting) == auth_setting:
        auth = ClientAuth.NONE
    try:
        rules = principal_rules(settings.ssl_principal_mapping_rules)
    except ValueError as error:
        setting = security.label(name, "ssl.principal.mapping.rules")
        raise ValueError(f"{setting} {error}.") from None
    return ListenerTls(
        certificate,
        key,
        trusted,
        auth,
        settings.ssl_enabled_protocols,
        rules,
        security.label(name, certificate_setting),
        security.label(name, trusted_setting),
    )


def _identity(
    name: str, settings: SecuritySettings, security: SecurityByListener
) -> tuple[KeyStore, KeyStore | None, str]:
    """Return certificate and key of a listener, and the setting that gave them."""
    password = settings.ssl_key_password or None
    if settings.ssl_keystore_certificate_chain:
        if not settings.ssl_keystore_key:
            missing = security.label(name, "ssl.keystore.certificate.chain")
            raise ValueError(f"{missing} needs its key: set ssl.keystore.key, too.")
        return (
            KeyStore(StoreKind.PEM, text=pem_lines(settings.ssl_keystore_certificate_chain)),
            KeyStore(StoreKind.PEM, text=pem_lines(settings.ssl_keystore_key), password=password),
            "ssl.keystore.certificate.chain",
        )
    location = settings.ssl_keystore_location
    if not location:
        raise ValueError(
            f"the listener {name} speaks TLS and has no certificate: set ssl.keystore.location, or "
            f"{PREFIX}{name.lower()}.ssl.keystore.location, to a file with the broker's "
            "certificate and its key."
        )
    kind = StoreKind(settings.ssl_keystore_type)
    # The password of a PEM file is that of its key, as in Kafka.
    key = KeyStore(kind, location, password=password) if kind is StoreKind.PEM else None
    store = KeyStore(kind, location, password=settings.ssl_keystore_password or None)
    return store, key, "ssl.keystore.location"
