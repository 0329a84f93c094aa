"""The options of Consumer and StreamsConsumer about TLS and SASL, with librdkafka's names."""

from collections.abc import Callable, Mapping
from typing import Annotated, Any, TypedDict

from apportion.client.security_fields import (
    HOST_NAME_CHECKS,
    Dialect,
    GivenOption,
    SecurityFault,
    SecurityFields,
    client_credentials_login,
    mechanism_of,
    password_login,
    security_of,
    token_function_login,
)
from apportion.security import oauthbearer
from apportion.security.client_security import (
    ClientCredentials,
    ClientIdentity,
    ClientSecurity,
    SaslLogin,
)
from apportion.security.key_stores import KeyStore, StoreKind
from apportion.security.names import MECHANISMS, PROTOCOLS, SecurityProtocol
from apportion.settings import Setting

TOKEN_METHODS = ("default", "oidc")


def _text(sentence: str, default: str = "none") -> Setting:
    return Setting(sentence, default_words=default)


class SecurityOptions(TypedDict, total=False):
    """Options about TLS and SASL."""

    security_protocol: Annotated[
        str,
        Setting(
            "The protocol of the listener.", SecurityProtocol.PLAINTEXT.value, choices=PROTOCOLS
        ),
    ]
    ssl_ca_location: Annotated[
        str | None, _text("The CA certificates of the cluster, a PEM file.", "the system's")
    ]
    ssl_ca_pem: Annotated[str | None, _text("The same as PEM text.")]
    ssl_certificate_location: Annotated[
        str | None, _text("The client's certificate with its chain, a PEM file (mTLS).")
    ]
    ssl_certificate_pem: Annotated[str | None, _text("The same as PEM text.")]
    ssl_key_location: Annotated[
        str | None, _text("The key of the client's certificate, a PEM file.")
    ]
    ssl_key_pem: Annotated[str | None, _text("The same as PEM text.")]
    ssl_key_password: Annotated[str | None, _text("The password of the client's key.")]
    ssl_keystore_location: Annotated[
        str | None, _text("The client's certificate and key as PKCS12, in place of PEM.")
    ]
    ssl_keystore_password: Annotated[str | None, _text("The password of that PKCS12 file.")]
    enable_ssl_certificate_verification: Annotated[
        bool,
        Setting("Whether a broker must have a certificate of a trusted CA; for tests alone.", True),
    ]
    ssl_endpoint_identification_algorithm: Annotated[
        str,
        Setting(
            "https: a broker's certificate must name its host; none: any will do.",
            "https",
            choices=HOST_NAME_CHECKS,
        ),
    ]
    sasl_mechanism: Annotated[
        str | None,
        Setting("The SASL mechanism.", default_words="none", choices=MECHANISMS),
    ]
    sasl_mechanisms: Annotated[
        str | None,
        Setting("Another name of sasl_mechanism.", default_words="none", choices=MECHANISMS),
    ]
    sasl_username: Annotated[str | None, _text("The user, for PLAIN and SCRAM.")]
    sasl_password: Annotated[str | None, _text("The user's password.")]
    oauth_cb: Annotated[
        Callable[[str], Any] | str | None,
        _text(
            "For OAUTHBEARER: a function that returns a token, or (token, expiry in seconds since "
            "1970); also as module:function. Its argument is sasl_oauthbearer_config."
        ),
    ]
    sasl_oauthbearer_config: Annotated[str | None, _text("The argument of oauth_cb.")]
    sasl_oauthbearer_method: Annotated[
        str,
        Setting(
            "oidc: get tokens from an OAuth server; default: from oauth_cb.",
            "default",
            choices=TOKEN_METHODS,
        ),
    ]
    sasl_oauthbearer_token_endpoint_url: Annotated[
        str | None, _text("Where the OAuth server gives tokens, https://...")
    ]
    sasl_oauthbearer_client_id: Annotated[str | None, _text("The id of this client there.")]
    sasl_oauthbearer_client_secret: Annotated[str | None, _text("Its secret.")]
    sasl_oauthbearer_scope: Annotated[str | None, _text("The scope that tokens are asked for.")]
    sasl_oauthbearer_extensions: Annotated[
        str | None, _text("What to tell the broker besides, as key=value,key=value.")
    ]


FIELDS = {  # the option -> its meaning in SecurityFields
    "security_protocol": "protocol",
    "ssl_ca_location": "ca_location",
    "ssl_ca_pem": "ca_pem",
    "ssl_certificate_location": "certificate_location",
    "ssl_certificate_pem": "certificate_pem",
    "ssl_key_location": "key_location",
    "ssl_key_pem": "key_pem",
    "ssl_key_password": "key_password",
    "ssl_keystore_location": "keystore_location",
    "ssl_keystore_password": "keystore_password",
    "enable_ssl_certificate_verification": "certificate_verification",
    "ssl_endpoint_identification_algorithm": "endpoint_identification",
    "sasl_mechanisms": "mechanism",
    "sasl_mechanism": "mechanism",
    "sasl_username": "username",
    "sasl_password": "password",
    "oauth_cb": "token_function",
    "sasl_oauthbearer_config": "token_config",
    "sasl_oauthbearer_method": "token_method",
    "sasl_oauthbearer_token_endpoint_url": "token_url",
    "sasl_oauthbearer_client_id": "client_id",
    "sasl_oauthbearer_client_secret": "client_secret",
    "sasl_oauthbearer_scope": "scope",
    "sasl_oauthbearer_extensions": "extensions",
}
NAMES = {field: option for option, field in FIELDS.items()}


def client_security(options: Mapping[str, Any]) -> ClientSecurity:
    """Return the security of a Consumer with these options, of which it takes its own.

    Raises ValueError, without any secret.
    """
    given = {
        FIELDS[name]: GivenOption(name, value)
        for name, value in options.items()
        if name in FIELDS and value is not None
    }
    return security_of(SecurityFields(given, NAMES), Dialect(_trusted, _identity, _login))


def _pem_or_none(fields: SecurityFields, what: str) -> KeyStore | None:
    """Return the PEM of a file or of a text; None if neither is given."""
    password = fields.secret_or_none("key_password") if what == "key" else None
    location, text = fields.text(f"{what}_location"), fields.text(f"{what}_pem")
    if location and text:
        raise fields.fault(f"{what}_pem", f"and {fields.name(f'{what}_location')}: give one")
    if not location and not text:
        return None
    return KeyStore(StoreKind.PEM, location, text, password)


def _trusted(fields: SecurityFields) -> KeyStore | None:
    return _pem_or_none(fields, "ca")


def _identity(fields: SecurityFields) -> ClientIdentity | None:
    store = fields.store_or_none("keystore_location", StoreKind.PKCS12, "keystore_password")
    certificate, key = _pem_or_none(fields, "certificate"), _pem_or_none(fields, "key")
    if store is not None:
        if certificate is not None or key is not None:
            raise fields.fault("keystore_location", "has certificate and key: give no others")
        return ClientIdentity(store)
    if certificate is None:
        if key is not None:
            raise fields.fault("certificate_location", "is missing: the key is of a certificate")
        return None
    if key is None:
        # Certificate and key may be in one file, as librdkafka does not have it, but many do.
        password = fields.secret_or_none("key_password")
        key = KeyStore(certificate.kind, certificate.location, certificate.text, password)
    return ClientIdentity(certificate, key)


def _login(fields: SecurityFields, trusted: KeyStore | None) -> SaslLogin:
    del trusted  # librdkafka has the system's CAs for the OAuth server
    if "mechanism" not in fields:
        fields.required("mechanism", f"with {fields.name('protocol')}")
    mechanism = mechanism_of(fields, "")
    if mechanism != oauthbearer.NAME:
        why = f"for the mechanism {mechanism}"
        name, password = fields.required("username", why), fields.required("password", why)
        return password_login(mechanism, name, password, fields.name("password"))
    if fields.choice("token_method", TOKEN_METHODS, "default") == "default":
        if "token_function" not in fields:
            raise SecurityFault(
                fields.name("token_function"),
                f"is missing: OAUTHBEARER needs a token; or set {fields.name('token_method')} to "
                "oidc, to get tokens from an OAuth server",
            )
        function = fields.given("token_function")
        return token_function_login(function.value, fields.text("token_config"), function.name)
    source = ClientCredentials(
        fields.text("token_url"),
        fields.required("client_id", "to get tokens from an OAuth server"),
        fields.required("client_secret", "to get tokens from an OAuth server"),
        fields.text("scope"),
        _extensions(fields),
    )
    return client_credentials_login(fields, source)


def _extensions(fields: SecurityFields) -> tuple[tuple[str, str], ...]:
    pairs = [each.strip() for each in fields.text("extensions").split(",") if each.strip()]
    if not all("=" in each for each in pairs):
        raise fields.fault("extensions", "must be key=value,key=value")
    return tuple((name, value) for name, _, value in (each.partition("=") for each in pairs))
