"""From the options of a client, in whichever spelling, to a `ClientSecurity`.

librdkafka and Kafka's Java clients name the same things differently. A dialect turns its options
into `SecurityFields`, which know by what name the user called each: so checks are written once, and
errors name the user's own option. No error shows the value of a secret.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from apportion.security import oauthbearer
from apportion.security.client_security import (
    ClientCredentials,
    ClientIdentity,
    ClientSecurity,
    OptionNames,
    PasswordLogin,
    SaslLogin,
    TlsSettings,
    TokenFunction,
    TokenLogin,
)
from apportion.security.exchange import is_sendable
from apportion.security.key_stores import TLS_VERSIONS, KeyStore, StoreKind
from apportion.security.names import MECHANISMS, PROTOCOLS, SecurityProtocol

HOST_NAME_CHECKS = ("https", "none")
NO_KERBEROS = "GSSAPI (Kerberos) is not here"
TRUST_FIELDS = frozenset(("ca_location", "ca_password", "ca_pem", "ca_type"))
TLS_FIELDS = TRUST_FIELDS | {
    "certificate_location",
    "certificate_pem",
    "certificate_verification",
    "endpoint_identification",
    "key_location",
    "key_password",
    "key_pem",
    "keystore_location",
    "keystore_password",
    "keystore_type",
    "tls_versions",
}
LOGIN_FIELDS = frozenset(
    (
        "client_id",
        "client_secret",
        "extensions",
        "jaas",
        "mechanism",
        "password",
        "scope",
        "token_config",
        "token_function",
        "token_method",
        "token_url",
        "username",
    )
)
"""Every field is of one of the two, but the protocol itself."""


class GivenOption(NamedTuple):
    """The value of an option, and its name as the user wrote it."""

    name: str
    value: Any


class SecurityFault(ValueError):
    """A wrong option; the text begins with its name."""

    def __init__(self, name: str, why: str) -> None:
        """Create the error. why: goes on after the name, without a secret."""
        self.name, self.why = name, why
        super().__init__(f"{name} {why}")


class SecurityFields:
    """The options of one client about security, by what they mean."""

    def __init__(self, given: Mapping[str, GivenOption], names: Mapping[str, str]) -> None:
        """Take the options that were given.

        names: of all meanings, the options' names in this dialect, for errors.
        """
        self._given = given
        self._names = names

    def __contains__(self, field: str) -> bool:
        return field in self._given

    def __iter__(self) -> Iterator[str]:
        """Iterate over the options that were given, in the user's order."""
        return iter(self._given)

    def name(self, field: str) -> str:
        """Return how this dialect, or its user, calls the option."""
        return self._given[field].name if field in self._given else self._names[field]

    def option_names(self) -> OptionNames:
        """Return how this dialect, or its user, calls the options that later errors name."""
        suffix = "location" if "certificate_location" in self._names else "pem"
        meanings = {"certificate": f"certificate_{suffix}", "key": f"key_{suffix}"}
        fields = (meanings.get(field, field) for field in OptionNames._fields)
        return OptionNames(*(self.name(field) if field in self._names else "" for field in fields))

    def given(self, field: str) -> GivenOption:
        """Return an option that was given."""
        return self._given[field]

    def text(self, field: str, default: str = "") -> str:
        """Return a text. Raises SecurityFault for anything else."""
        if field not in self._given:
            return default
        name, value = self._given[field]
        if not isinstance(value, str):
            raise SecurityFault(name, f"must be a text, not a {type(value).__name__}")
        return value

    def secret_or_none(self, field: str) -> str | None:
        """Return a secret; None if it was not given, or is empty."""
        return self.text(field) or None

    def required(self, field: str, why: str) -> str:
        """Return a text that must be there. why: such as "for the mechanism PLAIN"."""
        text = self.text(field)
        if not text:
            raise SecurityFault(self.name(field), f"is missing: it is needed {why}")
        return text

    def choice(self, field: str, choices: tuple[str, ...], default: str) -> str:
        """Return one of a few words, in any case."""
        text = self.text(field, default)
        for each in choices:
            if text.strip().upper() == each.upper():
                return each
        raise SecurityFault(self.name(field), f"must be one of {', '.join(choices)}, not {text!r}")

    def flag(self, field: str, default: bool) -> bool:
        """Return True or False, also as a word."""
        if field not in self._given:
            return default
        name, value = self._given[field]
        words = {"true": True, "false": False}
        found = value if isinstance(value, bool) else words.get(str(value).strip().lower())
        if found is None:
            raise SecurityFault(name, f"must be true or false, not {value!r}")
        return found

    def store_or_none(self, field: str, kind: StoreKind, password: str = "") -> KeyStore | None:
        """Return the store of a file's path; None if there is none. password: its field."""
        location = self.text(field)
        if not location:
            return None
        return KeyStore(kind, location, password=self.secret_or_none(password))

    def fault(self, field: str, why: str) -> SecurityFault:
        """Return the error of an option."""
        return SecurityFault(self.name(field), why)


class Dialect(NamedTuple):
    """The difference between dialects: how they give TLS stores and logins.

    trusted, identity: return what TLS needs. login: returns how to authenticate; it is
    given the store of trusted CA certificates.
    """

    trusted: Callable[[SecurityFields], KeyStore | None]
    identity: Callable[[SecurityFields], ClientIdentity | None]
    login: Callable[[SecurityFields, KeyStore | None], SaslLogin]


def security_of(fields: SecurityFields, dialect: Dialect) -> ClientSecurity:
    """Return the security that the options describe. Raises SecurityFault."""
    default = SecurityProtocol.PLAINTEXT.value
    protocol = SecurityProtocol(fields.choice("protocol", PROTOCOLS, default))
    trusted = dialect.trusted(fields)
    tls = _tls(fields, dialect, trusted) if protocol.has_tls else None
    login = dialect.login(fields, trusted) if protocol.has_sasl else None
    security = ClientSecurity(tls, login, fields.option_names())
    _refuse_unused(fields, security)
    return security


def _refuse_unused(fields: SecurityFields, security: ClientSecurity) -> None:
    """Refuse options of TLS or of a login that the protocol does not have.

    Refused and not ignored: a user who gives a password or a certificate believes that it is used.
    Raises SecurityFault.
    """
    tls, login = security.tls, security.login
    unused: frozenset[str] = frozenset()
    if login is None:
        unused |= LOGIN_FIELDS
    if tls is None:
        unused |= TLS_FIELDS
        source = login.source if isinstance(login, TokenLogin) else None
        if isinstance(source, ClientCredentials) and source.trusted is not None:
            unused -= TRUST_FIELDS  # they are for the OAuth server
    for field in fields:
        if field not in unused:
            continue
        sasl_ssl, protocol = SecurityProtocol.SASL_SSL.value, fields.name("protocol")
        # The protocols that use it, of those that keep the other half as it is. A password is not
        # to be sent in the clear by the first advice.
        if field in TLS_FIELDS:
            fits = f"{SecurityProtocol.SSL.value} or {sasl_ssl}" if login is None else sasl_ssl
        else:
            fits = f"{sasl_ssl} (with TLS) or {SecurityProtocol.SASL_PLAINTEXT.value}"
            fits = sasl_ssl if tls is not None else fits
        raise fields.fault(
            field,
            f"says nothing while {protocol} is {security.protocol.value}: set {protocol} to "
            f"{fits}, or leave {fields.name(field)} out",
        )


def _tls(fields: SecurityFields, dialect: Dialect, trusted: KeyStore | None) -> TlsSettings:
    """Return the settings of TLS."""
    algorithm = fields.text("endpoint_identification", "https").strip().lower()
    if algorithm and algorithm not in HOST_NAME_CHECKS:
        must = " or ".join(HOST_NAME_CHECKS)
        raise fields.fault("endpoint_identification", f"must be {must}, not {algorithm!r}")
    return TlsSettings(
        trusted=trusted,
        identity=dialect.identity(fields),
        checks_certificate=fields.flag("certificate_verification", True),
        checks_host_name=algorithm == "https",
        versions=_versions(fields),
    )


def _versions(fields: SecurityFields) -> tuple[str, ...]:
    """Return the versions of TLS that are offered, the oldest first."""
    text = fields.text("tls_versions", ",".join(TLS_VERSIONS))
    named = {each.strip().lower() for each in text.split(",") if each.strip()}
    versions = tuple(each for each in TLS_VERSIONS if each.lower() in named)
    if not versions:
        raise fields.fault(
            "tls_versions", f"must have {' or '.join(TLS_VERSIONS)}, with a comma between"
        )
    return versions


def mechanism_of(fields: SecurityFields, default: str) -> str:
    """Return the SASL mechanism. Raises SecurityFault for one that is not here."""
    if fields.text("mechanism", default).strip().upper() == "GSSAPI":
        raise fields.fault("mechanism", f"must be one of {', '.join(MECHANISMS)}: {NO_KERBEROS}")
    return fields.choice("mechanism", MECHANISMS, default)


def password_login(mechanism: str, name: str, password: str, fault: str) -> PasswordLogin:
    """Return a login by password. fault: the option to name if a message cannot carry it."""
    for what, text in (("name of the user", name), ("password", password)):
        if not is_sendable(text):
            raise SecurityFault(fault, f"has a {what} with NUL or a lone surrogate in it")
    return PasswordLogin(mechanism, name, password)


def token_function_login(function: Any, config: str, name: str) -> TokenLogin:
    """Return a login by a function of the user's. name: of its option."""
    is_path = isinstance(function, str) and all(function.partition(":"))
    if not is_path and not callable(function):
        raise SecurityFault(
            name, 'must be a Python function as "module:function", which returns a token'
        )
    return TokenLogin(TokenFunction(function, config))


def client_credentials_login(fields: SecurityFields, source: ClientCredentials) -> TokenLogin:
    """Return a login by tokens of an OAuth server. Raises SecurityFault for its address."""
    if not source.token_url:
        fields.required("token_url", "to get tokens from an OAuth server")
    from apportion.client.tokens import url_fault_or_none

    if (fault := url_fault_or_none(source.token_url)) is not None:
        raise fields.fault("token_url", fault)
    try:
        oauthbearer.client("token", dict(source.extensions))
    except ValueError as error:
        raise fields.fault("extensions", f"cannot be sent: {error}") from None
    return TokenLogin(source)
