"""Options about TLS and SASL with the names of Kafka's Java clients, as Spark's jobs have them.

A file for Kafka's own tools (`--command-config`) has them as lines NAME=VALUE.
"""

from collections.abc import Mapping

from apportion.client.security_fields import (
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
from apportion.security.jaas import JaasLogin, parse_jaas
from apportion.security.key_stores import KeyStore, StoreKind, pem_lines
from apportion.settings import nearest_or_none

PREFIXES = ("security.", "ssl.", "sasl.")
"""How the names of all options about security begin."""
FIELDS = {  # the option -> its meaning in SecurityFields
    "security.protocol": "protocol",
    "ssl.truststore.location": "ca_location",
    "ssl.truststore.password": "ca_password",
    "ssl.truststore.type": "ca_type",
    "ssl.truststore.certificates": "ca_pem",
    "ssl.keystore.location": "keystore_location",
    "ssl.keystore.password": "keystore_password",
    "ssl.keystore.type": "keystore_type",
    "ssl.keystore.certificate.chain": "certificate_pem",
    "ssl.keystore.key": "key_pem",
    "ssl.key.password": "key_password",
    "ssl.enabled.protocols": "tls_versions",
    "ssl.endpoint.identification.algorithm": "endpoint_identification",
    "sasl.mechanism": "mechanism",
    "sasl.jaas.config": "jaas",
    "sasl.login.callback.handler.class": "token_function",
    "sasl.oauthbearer.token.endpoint.url": "token_url",
    "sasl.oauthbearer.client.credentials.client.id": "client_id",
    "sasl.oauthbearer.client.credentials.client.secret": "client_secret",
    "sasl.oauthbearer.scope": "scope",
}
OF_LIBRDKAFKA = {  # librdkafka's name of an option -> Kafka's
    "ssl.ca.location": "ssl.truststore.location",
    "ssl.ca.pem": "ssl.truststore.certificates",
    "ssl.certificate.location": "ssl.keystore.location",
    "ssl.certificate.pem": "ssl.keystore.certificate.chain",
    "ssl.key.location": "ssl.keystore.location",
    "ssl.key.pem": "ssl.keystore.key",
    "sasl.mechanisms": "sasl.mechanism",
    "sasl.username": "sasl.jaas.config",
    "sasl.password": "sasl.jaas.config",
    "sasl.oauthbearer.client.id": "sasl.oauthbearer.client.credentials.client.id",
    "sasl.oauthbearer.client.secret": "sasl.oauthbearer.client.credentials.client.secret",
}
OIDC_HANDLER = "OAuthBearerLoginCallbackHandler"
"""Kafka's class that gets tokens from an OAuth server (KIP-768)."""
UNUSED = "cannot be used here: drop the option"
JAVA_CLASS = "names a class of Java, which cannot be used here: drop the option"
AS_GIVEN = "cannot be used here: tokens are sent as the server gives them; drop the option"
NO_ASSERTIONS = (
    "is of client assertions, which are not here: give the client's id and secret (clientId and "
    "clientSecret of sasl.jaas.config)"
)
REFUSED = {  # the option -> why it cannot be used
    "ssl.protocol": "cannot be used here: set ssl.enabled.protocols",
    "ssl.cipher.suites": "cannot be used here: OpenSSL's own choice is offered; drop the option",
    "ssl.provider": JAVA_CLASS,
    "ssl.engine.factory.class": JAVA_CLASS,
    "sasl.client.callback.handler.class": JAVA_CLASS,
    "sasl.login.class": JAVA_CLASS,
    "sasl.kerberos.service.name": "is of Kerberos, which is not here",
    "security.providers": JAVA_CLASS,
    "sasl.oauthbearer.jwt.retriever.class": JAVA_CLASS,
    "sasl.oauthbearer.jwt.validator.class": JAVA_CLASS,
    **dict.fromkeys(
        (
            "sasl.oauthbearer.allow.unverified.issuer",
            "sasl.oauthbearer.clock.skew.seconds",
            "sasl.oauthbearer.expected.audience",
            "sasl.oauthbearer.expected.issuer",
            "sasl.oauthbearer.header.urlencode",
            "sasl.oauthbearer.jwks.endpoint.refresh.ms",
            "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
            "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
            "sasl.oauthbearer.jwks.endpoint.url",
            "sasl.oauthbearer.scope.claim.name",
            "sasl.oauthbearer.sub.claim.name",
        ),
        AS_GIVEN,
    ),
    **dict.fromkeys(
        (
            "sasl.oauthbearer.assertion.algorithm",
            "sasl.oauthbearer.assertion.claim.aud",
            "sasl.oauthbearer.assertion.claim.exp.seconds",
            "sasl.oauthbearer.assertion.claim.iss",
            "sasl.oauthbearer.assertion.claim.jti.include",
            "sasl.oauthbearer.assertion.claim.nbf.seconds",
            "sasl.oauthbearer.assertion.claim.sub",
            "sasl.oauthbearer.assertion.file",
            "sasl.oauthbearer.assertion.private.key.file",
            "sasl.oauthbearer.assertion.private.key.passphrase",
            "sasl.oauthbearer.assertion.template.file",
        ),
        NO_ASSERTIONS,
    ),
}


def kafka_security(options: Mapping[str, str], prefix: str = "") -> ClientSecurity:
    """Return the security that these options describe; those of other matters are left alone.

    prefix: in front of each name, such as Spark's "kafka."; names may be in any case. Raises
    SecurityFault, without any secret.
    """
    given = {}
    for name, value in options.items():
        plain = name.lower().removeprefix(prefix)
        if not name.lower().startswith(prefix) or not plain.startswith(PREFIXES):
            continue
        if plain not in FIELDS:
            raise _unknown(plain, prefix)
        given[FIELDS[plain]] = GivenOption(prefix + plain, value)
    names = {field: prefix + name for name, field in FIELDS.items()}
    fields = SecurityFields(given, names)
    return security_of(fields, Dialect(_trusted, _identity, _login))


def _unknown(name: str, prefix: str) -> SecurityFault:
    """Return the error for an option that is not here."""
    if name in REFUSED:
        return SecurityFault(prefix + name, REFUSED[name])
    nearest = nearest_option_or_none(name)
    hint = f"did you mean {prefix}{nearest}?" if nearest else UNUSED
    return SecurityFault(prefix + name, f"is not known: {hint}" if nearest else UNUSED)


def nearest_option_or_none(name: str) -> str | None:
    """Return the option that somebody may have meant by another name."""
    # Options of Python have underscores, and are librdkafka's otherwise.
    dotted = name.replace("_", ".")
    return OF_LIBRDKAFKA.get(dotted) or nearest_or_none(dotted, FIELDS)


def _kind(fields: SecurityFields, field: str) -> StoreKind:
    """Return the type of a store."""
    return StoreKind(fields.choice(field, tuple(each.value for each in StoreKind), "JKS"))


def _trusted(fields: SecurityFields) -> KeyStore | None:
    text, kind = fields.text("ca_pem"), _kind(fields, "ca_type")
    if text:
        return KeyStore(StoreKind.PEM, text=pem_lines(text))
    return fields.store_or_none("ca_location", kind, "ca_password")


def _identity(fields: SecurityFields) -> ClientIdentity | None:
    kind, key_password = _kind(fields, "keystore_type"), fields.secret_or_none("key_password")
    chain = fields.text("certificate_pem")
    if chain:
        key = fields.required("key_pem", f"with {fields.name('certificate_pem')}")
        return ClientIdentity(
            KeyStore(StoreKind.PEM, text=pem_lines(chain)),
            KeyStore(StoreKind.PEM, text=pem_lines(key), password=key_password),
        )
    if fields.text("key_pem"):
        fields.required("certificate_pem", f"with {fields.name('key_pem')}")
    store = fields.store_or_none("keystore_location", kind, "keystore_password")
    if store is None or kind is not StoreKind.PEM:
        return None if store is None else ClientIdentity(store)
    # A PEM keystore has the key and the chain; its password is the key's, as in Kafka.
    return ClientIdentity(store, KeyStore(kind, store.location, password=key_password))


def _login(fields: SecurityFields, trusted: KeyStore | None) -> SaslLogin:
    if "mechanism" not in fields:
        fields.required("mechanism", f"with {fields.name('protocol')}")
    mechanism = mechanism_of(fields, "")
    if mechanism == oauthbearer.NAME and "client_id" in fields and "jaas" not in fields:
        jaas = JaasLogin((mechanism,), {})
    else:
        text = fields.required("jaas", "to log in: it names the user")
        try:
            jaas = parse_jaas(text)
        except ValueError as error:
            raise fields.fault("jaas", str(error)) from None
    if mechanism not in jaas.mechanisms:
        raise fields.fault(
            "jaas",
            f"has a login module for {' and '.join(jaas.mechanisms)}, and "
            f"{fields.name('mechanism')} is {mechanism}",
        )
    if mechanism == oauthbearer.NAME:
        return _token_login(fields, jaas, trusted)
    if jaas.options.get("tokenauth", "").lower() == "true":
        raise fields.fault("jaas", "has a delegation token, which cannot be used here")
    for option in ("username", "password"):
        if not jaas.options.get(option):
            raise fields.fault("jaas", f'must have {option}="..." after the login module')
    name, password = jaas.options["username"], jaas.options["password"]
    return password_login(mechanism, name, password, fields.name("jaas"))


def _token_login(fields: SecurityFields, jaas: JaasLogin, trusted: KeyStore | None) -> SaslLogin:
    """Return the login of OAUTHBEARER: by Kafka's handler, or by a function in Python."""
    handler = fields.text("token_function")
    if ":" in handler:
        return token_function_login(handler, "", fields.name("token_function"))
    if handler.rpartition(".")[2] != OIDC_HANDLER and "client_id" not in fields:
        raise fields.fault(
            "token_function",
            f"must be {OIDC_HANDLER} of Kafka, which gets tokens from an OAuth server, or a "
            'Python function as "module:function", which returns a token',
        )
    client_id = fields.text("client_id") or jaas.options.get("clientId", "")
    secret = fields.text("client_secret") or jaas.options.get("clientSecret", "")
    if not client_id or not secret:
        raise fields.fault(
            "jaas", 'must have clientId="..." and clientSecret="..." after the login module'
        )
    extensions = tuple(
        (name.removeprefix("extension_"), value)
        for name, value in jaas.options.items()
        if name.startswith("extension_")
    )
    scope = fields.text("scope") or jaas.options.get("scope", "")
    # As in Kafka, the truststore is for the OAuth server, too.
    source = ClientCredentials(
        fields.text("token_url"), client_id, secret, scope, extensions, trusted
    )
    return client_credentials_login(fields, source)
