"""The settings of TLS and SASL, under Kafka's own names, for all listeners of a broker or for one.

Kafka has one rule for all of them: `listener.name.NAME.` in front makes a setting that listener's
own, which stands over the one without it. A few are of one SASL mechanism of one listener:
`listener.name.NAME.MECHANISM.` is in front of these.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, NamedTuple

from apportion.coord.config import dotted
from apportion.node.setting_values import HIDDEN, parsed, written
from apportion.security import oauthbearer
from apportion.security.key_stores import TLS_VERSIONS, ClientAuth
from apportion.security.names import MECHANISMS
from apportion.settings import Setting, bounds_fault_or_none, declared, nearest_or_none

PREFIX = "listener.name."
STORE_TYPES = ("JKS", "PKCS12", "PEM")
REFUSED = {  # a setting of Kafka's that is not here -> what to do
    "sasl.jaas.config": f"give it for a listener and a mechanism, as "
    f"{PREFIX}NAME.MECHANISM.sasl.jaas.config.",
    "security.inter.broker.protocol": "this broker is the whole cluster; leave it out.",
    "ssl.cipher.suites": "OpenSSL's own choice is offered; leave it out.",
    "ssl.protocol": "set ssl.enabled.protocols.",
}


def _secret(sentence: str) -> Setting:
    return Setting(sentence, is_secret=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class MechanismSettings:
    """The settings of one SASL mechanism of one listener."""

    sasl_jaas_config: Annotated[
        str, _secret("The login module of the mechanism, with users for PLAIN.")
    ] = field(default="", repr=False)
    connections_max_reauth_ms: Annotated[
        int | None,
        Setting(
            "connections.max.reauth.ms for this mechanism.",
            at_least=0,
            default_words="that of the listener",
        ),
    ] = None
    sasl_server_callback_handler_class: Annotated[
        str,
        Setting(
            "For OAUTHBEARER: a Python function, module:function, that gets a token and returns "
            "its user and the second since 1970 when it ends, or None; or Kafka's "
            "OAuthBearerValidatorCallbackHandler, as without it."
        ),
    ] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SecuritySettings:
    """The TLS and SASL of a listener. A field is Kafka's setting of that name, with underscores.

    mechanisms: what is set for one mechanism, by its name.
    """

    ssl_keystore_type: Annotated[
        str, Setting("The format of that file; JKS is mostly PKCS12.", choices=STORE_TYPES)
    ] = "JKS"
    ssl_keystore_location: Annotated[
        str, Setting("A file with the broker's certificate, its chain and its key.")
    ] = ""
    ssl_keystore_password: Annotated[str, _secret("The password of that file.")] = field(
        default="", repr=False
    )
    ssl_keystore_certificate_chain: Annotated[
        str, _secret("The certificate with its chain as PEM text, in place of a file.")
    ] = field(default="", repr=False)
    ssl_keystore_key: Annotated[str, _secret("Its key as PEM text.")] = field(
        default="", repr=False
    )
    ssl_key_password: Annotated[str, _secret("The password of the key.")] = field(
        default="", repr=False
    )
    ssl_truststore_type: Annotated[
        str, Setting("The format of that file; JKS is mostly PKCS12.", choices=STORE_TYPES)
    ] = "JKS"
    ssl_truststore_location: Annotated[
        str,
        Setting("A file with the CA certificates of clients (mTLS).", default_words="the system's"),
    ] = ""
    ssl_truststore_password: Annotated[str, _secret("The password of that file.")] = field(
        default="", repr=False
    )
    ssl_truststore_certificates: Annotated[
        str, _secret("The CA certificates as PEM text, in place of a file.")
    ] = field(default="", repr=False)
    ssl_client_auth: Annotated[
        str,
        Setting(
            "Whether clients of an SSL listener must have a certificate of a trusted CA (mTLS), "
            "are asked for one, or neither. For SASL_SSL, only with a listener's name in front.",
            choices=tuple(each.value for each in ClientAuth),
        ),
    ] = "none"
    ssl_enabled_protocols: Annotated[
        tuple[str, ...], Setting("The versions of TLS that are offered.")
    ] = TLS_VERSIONS
    ssl_principal_mapping_rules: Annotated[
        str,
        Setting(
            "The principal of a client certificate's name: the first rule that fits, of "
            "RULE:pattern/replacement/, with L or U at its end for lower or upper case, and "
            "DEFAULT, which is the whole name."
        ),
    ] = "DEFAULT"
    sasl_enabled_mechanisms: Annotated[
        tuple[str, ...],
        Setting(f"The SASL mechanisms that clients may use, of {', '.join(MECHANISMS)}."),
    ] = ()
    sasl_server_max_receive_size: Annotated[
        int, Setting("The largest request of a client that has not authenticated.", at_least=1)
    ] = 524_288
    connections_max_reauth_ms: Annotated[
        int,
        Setting(
            "How long a SASL session lasts before its client must authenticate again (KIP-368); "
            "0 for as long as the client's credentials.",
            at_least=0,
        ),
    ] = 0
    connection_failed_authentication_delay_ms: Annotated[
        int,
        Setting("How long a client waits for the answer that its login is refused.", at_least=0),
    ] = 100
    sasl_oauthbearer_jwks_endpoint_url: Annotated[
        str,
        Setting(
            "Where the keys are that sign tokens, a JSON Web Key Set: https://... or file://..."
        ),
    ] = ""
    sasl_oauthbearer_jwks_endpoint_refresh_ms: Annotated[
        int, Setting("The age at which these keys are fetched again.", at_least=1)
    ] = 3_600_000
    sasl_oauthbearer_expected_audience: Annotated[
        tuple[str, ...],
        Setting("Audiences, of which a token must have one (aud).", default_words="any"),
    ] = ()
    sasl_oauthbearer_expected_issuer: Annotated[
        str, Setting("The issuer that a token must have (iss).", default_words="any")
    ] = ""
    sasl_oauthbearer_scope_claim_name: Annotated[
        str, Setting("The claim of a token that has its scopes.")
    ] = "scope"
    sasl_oauthbearer_sub_claim_name: Annotated[
        str, Setting("The claim of a token that has its user.")
    ] = "sub"
    sasl_oauthbearer_clock_skew_seconds: Annotated[
        int,
        Setting("How far the clocks of issuer and broker may be apart.", at_least=0),
    ] = 30
    apportion_oauthbearer_unsecured: Annotated[
        bool,
        Setting(
            "Whether tokens of OAUTHBEARER have no signature, so that anybody can be any user: "
            "for tests."
        ),
    ] = False
    mechanisms: Mapping[str, MechanismSettings] = field(default_factory=dict)


class SecurityName(NamedTuple):
    """The name of one security setting in its parts.

    listener, mechanism: that it is for, in lower case; "" for all. setting: its declaration.
    """

    listener: str
    mechanism: str
    setting: Setting


@dataclass(frozen=True, slots=True)
class SecurityByListener:
    """The security settings of a broker.

    shared: those of all listeners. own: of each listener that has any, what holds there, by the
    listener's name in lower case. given: what was given for one listener, by the whole name.
    """

    shared: SecuritySettings = field(default_factory=SecuritySettings)
    own: Mapping[str, SecuritySettings] = field(default_factory=dict)
    given: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def of_listener(self, name: str) -> SecuritySettings:
        """Return what holds at a listener."""
        return self.own.get(name.lower(), self.shared)

    def label(self, listener: str, setting: str) -> str:
        """Return how a setting that holds at a listener was called, for errors."""
        own = f"{PREFIX}{listener.lower()}.{setting}"
        return own if own in self.given else setting

    def named(self) -> Iterator[tuple[str, str]]:
        """Yield every setting with its value as Kafka writes it; a secret is hidden."""
        for name, setting in declared(SecuritySettings).items():
            yield dotted(name), _shown(setting, getattr(self.shared, name))
        for name, value in sorted(self.given.items()):
            yield name, _shown(parsed_name(name).setting, value)


def is_security_name(name: str) -> bool:
    """Return whether a setting of that name, with dots or underscores, is one of security."""
    return name.startswith(PREFIX) or name.replace(".", "_") in declared(SecuritySettings)


def security_by_listener(values: Mapping[str, Any]) -> SecurityByListener:
    """Return the security settings that were given.

    values: those whose names `is_security_name` knows.
    Errors: ValueError for an unknown name after a prefix, and for a value that is wrong.
    """
    by_place: dict[tuple[str, str], dict[str, Any]] = {}
    given = {}
    for name, value in values.items():
        label = name if name.startswith(PREFIX) else dotted(name)
        listener, mechanism, setting = parsed_name(label)
        read = _checked(label, value, setting)
        by_place.setdefault((listener, mechanism), {})[setting.name] = read
        if listener:
            given[f"{PREFIX}{listener}.{label.removeprefix(PREFIX).partition('.')[2]}"] = read
    shared = SecuritySettings(**by_place.pop(("", ""), {}))
    own: dict[str, SecuritySettings] = {}
    for (listener, mechanism), fields in by_place.items():
        holding = own.get(listener, shared)
        if mechanism:
            fields = {
                "mechanisms": {**holding.mechanisms, mechanism.upper(): MechanismSettings(**fields)}
            }
        own[listener] = replace(holding, **fields)
    return SecurityByListener(shared, own, given)


def parsed_name(name: str) -> SecurityName:
    """Return the parts of the name of a security setting. Errors: ValueError."""
    if not name.startswith(PREFIX):
        return SecurityName("", "", declared(SecuritySettings)[name.replace(".", "_")])
    listener, _, rest = name.removeprefix(PREFIX).partition(".")
    found = declared(SecuritySettings).get(rest.replace(".", "_"))
    if found is not None:
        return SecurityName(listener.lower(), "", found)
    mechanism, _, of_mechanism = rest.partition(".")
    # Kafka takes these with the mechanism in front, too: they are of no other.
    of_tokens = of_mechanism.replace(".", "_")
    if mechanism.upper() == oauthbearer.NAME and of_tokens.startswith("sasl_oauthbearer_"):
        found = declared(SecuritySettings).get(of_tokens)
        if found is not None:
            return SecurityName(listener.lower(), "", found)
    if mechanism.upper() in MECHANISMS:
        found = declared(MechanismSettings).get(of_mechanism.replace(".", "_"))
        if found is not None:
            return SecurityName(listener.lower(), mechanism.lower(), found)
        near = nearest_or_none(of_mechanism, map(dotted, declared(MechanismSettings)))
        hint = f"{mechanism}.{near}" if near else None
    else:
        near = hint = nearest_or_none(rest, map(dotted, declared(SecuritySettings)))
    ending = f"; did you mean {PREFIX}{listener}.{hint}?" if near else "."
    raise ValueError(f"there is no setting {name!r}{ending}")


def unknown_security_setting_or_none(name: str) -> str | None:
    """Return why Kafka's setting of that name is not here; None for other names."""
    label = dotted(name)
    if label in REFUSED:
        return f"{name!r} cannot be set: {REFUSED[label]}"
    if label.startswith(PREFIX):  # as a keyword argument, where `_` may be a part of a listener
        return f"write the setting {name!r} with dots."
    return None


def _checked(label: str, value: Any, setting: Setting) -> Any:
    """Return the value of a setting as it was read. Errors: ValueError."""
    read = parsed(label, value, setting)
    if isinstance(read, int) and (fault := bounds_fault_or_none(setting, read)) is not None:
        raise ValueError(f"{label} must {fault}, not {read}.")
    if setting.choices and read not in setting.choices:
        raise ValueError(f"{label} must be one of {', '.join(setting.choices)}, not {read!r}.")
    offered = {"ssl_enabled_protocols": TLS_VERSIONS, "sasl_enabled_mechanisms": MECHANISMS}
    for each in read if setting.name in offered else ():
        if each not in offered[setting.name]:
            there_are = ", ".join(offered[setting.name])
            raise ValueError(f"{label} has {each!r}, which is not here; there are {there_are}.")
    if setting.name == "ssl_enabled_protocols" and not read:
        raise ValueError(f"{label} must have {' or '.join(TLS_VERSIONS)}.")
    return read


def _shown(setting: Setting, value: Any) -> str:
    return HIDDEN if setting.is_secret and value else written(value)
