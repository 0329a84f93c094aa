"""The security of a client in the settings of librdkafka, which sends the records of a write.

Certificates and keys go there as PEM text, whatever file they came in: so librdkafka reads the same
stores as the source, and nobody has to give them twice. Tokens come from the source's own code.
"""

import re
import ssl
import time
from collections.abc import Callable
from typing import Any

from apportion.client.tokens import TokenSource
from apportion.drive.key_files import CERTIFICATE, ca_advice, keystore_advice, pem_of
from apportion.security.client_security import (
    ClientIdentity,
    ClientSecurity,
    OptionNames,
    PasswordLogin,
    TlsSettings,
    TokenLogin,
)
from apportion.security.key_stores import KeyStore

PRIVATE_KEY = re.compile(
    "-----BEGIN ([A-Z ]*PRIVATE KEY)-----.+?-----END \\1-----", re.DOTALL | re.ASCII
)
UNKNOWN_LIFETIME_S = 300.0
"""How long a token is kept of which nobody says how long it is good."""


def producer_security(security: ClientSecurity) -> dict[str, Any]:
    """Return librdkafka's settings. Raises ValueError for files that cannot be read or used."""
    settings: dict[str, Any] = {"security.protocol": security.protocol.value}
    if security.tls is not None:
        settings |= _tls(security.tls, security.names)
    match security.login:
        case PasswordLogin(mechanism, name, password):
            settings |= {
                "sasl.mechanisms": mechanism,
                "sasl.username": name,
                "sasl.password": password,
            }
        case TokenLogin(source, mechanism):
            settings |= {
                "sasl.mechanisms": mechanism,
                "oauth_cb": _token_function(TokenSource(source)),
            }
    return settings


def _tls(tls: TlsSettings, names: OptionNames) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "enable.ssl.certificate.verification": tls.checks_certificate,
        "ssl.endpoint.identification.algorithm": "https" if tls.checks_host_name else "none",
    }
    if tls.trusted is not None:
        settings["ssl.ca.pem"] = _certificates(tls.trusted, ca_advice(names))
    elif (place := _system_certificates()) is not None:
        settings["ssl.ca.location"] = place
    if tls.identity is not None:
        settings |= _identity(tls.identity, keystore_advice(names))
    return settings


def _system_certificates() -> str | None:
    """Return where Python has the CA certificates of the system; None if librdkafka is to look."""
    # librdkafka has an OpenSSL of its own, which looks in other places than Python's.
    paths = ssl.get_default_verify_paths()
    return paths.cafile or paths.capath


def _identity(identity: ClientIdentity, advice: str) -> dict[str, Any]:
    key = identity.key or identity.certificate
    found = PRIVATE_KEY.search(_text(key, advice))
    if found is None:
        raise ValueError("the client certificate has no private key")
    settings = {
        "ssl.certificate.pem": _certificates(identity.certificate, advice),
        "ssl.key.pem": found.group() + "\n",
    }
    if key.password is not None:
        settings["ssl.key.password"] = key.password
    return settings


def _certificates(store: KeyStore, advice: str) -> str:
    return "".join(each + "\n" for each in CERTIFICATE.findall(_text(store, advice)))


def _text(store: KeyStore, advice: str) -> str:
    return pem_of(store, advice).decode("ascii", "ignore")


def _token_function(tokens: TokenSource) -> Callable[[str], tuple[Any, ...]]:
    """Return the function by which confluent-kafka obtains a token, whenever it needs one."""

    def token(_config: str) -> tuple[Any, ...]:
        found = tokens.token()
        until_s = found.expires_at_s
        if until_s is None:
            until_s = time.time() + UNKNOWN_LIFETIME_S
        # The principal is for librdkafka's own logs: brokers read it in the token.
        return found.text, until_s, "", dict(found.extensions)

    return token
