"""TLS of a listener: its context, the principals of clients, and a sentence for each failure."""

import ssl

from apportion.drive.connection_errors import (
    EXPIRED,
    NO_TRUSTED_CA,
    NOT_YET_VALID,
    openssl_reason,
    unverified,
)
from apportion.drive.key_files import VERSIONS, load_identity, trust
from apportion.machine import ANONYMOUS
from apportion.node.listeners import ListenerTls
from apportion.node.settings import SettingRefused
from apportion.readable import shortened
from apportion.security.key_stores import ClientAuth
from apportion.security.principals import MAX_SHOWN, distinguished_name

VERIFY_MODES = {
    ClientAuth.NONE: ssl.CERT_NONE,
    ClientAuth.REQUESTED: ssl.CERT_OPTIONAL,
    ClientAuth.REQUIRED: ssl.CERT_REQUIRED,
}
NO_TLS = (
    "it speaks no TLS, as the listener {0} does: its client wants security.protocol SSL or "
    "SASL_SSL, or another listener"
)
UNTRUSTED = "its client does not trust this broker's certificate"
# By the reason that OpenSSL gives. An alert is what the client says of us.
REASONS = {
    "WRONG_VERSION_NUMBER": NO_TLS,
    "HTTP_REQUEST": NO_TLS,
    "HTTPS_PROXY_REQUEST": NO_TLS,
    "UNKNOWN_PROTOCOL": NO_TLS,
    "BAD_RECORD_TYPE": NO_TLS,
    "UNSUPPORTED_PROTOCOL": "it offers only older versions of TLS than ssl.enabled.protocols has",
    "VERSION_TOO_LOW": "it offers only older versions of TLS than ssl.enabled.protocols has",
    "NO_SHARED_CIPHER": "it offers no cipher that fits the certificate of the listener {0}",
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": (
        "it has no client certificate, and ssl.client.auth of the listener {0} is required"
    ),
    "TLSV1_ALERT_UNKNOWN_CA": f"{UNTRUSTED}: it does not know its CA",
    "SSLV3_ALERT_BAD_CERTIFICATE": UNTRUSTED,
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": UNTRUSTED,
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": f"{UNTRUSTED}: it has expired",
    "TLSV1_ALERT_PROTOCOL_VERSION": "it speaks none of the TLS versions of ssl.enabled.protocols",
}
DISTRUST = {
    EXPIRED: "its client certificate has expired",
    NOT_YET_VALID: "its client certificate is not valid yet",
    **dict.fromkeys(
        NO_TRUSTED_CA,
        "its client certificate is of no CA that the listener trusts (ssl.truststore.location)",
    ),
}


class ClientUnnamed(Exception):
    """A client certificate whose name no rule maps to a principal; the text is for the log."""


def tls_context(tls: ListenerTls) -> ssl.SSLContext:
    """Return the context of a listener's TLS connections.

    Errors: SettingRefused for a file that cannot be read or used; it names the setting.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = VERSIONS[min(tls.versions)]
    context.maximum_version = VERSIONS[max(tls.versions)]
    # A client that asks for new keys again and again would keep the broker busy.
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.verify_mode = VERIFY_MODES[tls.client_auth]
    setting = tls.certificate_setting
    try:
        load_identity(context, tls.certificate, tls.key)
        if tls.client_auth is not ClientAuth.NONE:
            setting = tls.trusted_setting
            trust(context, tls.trusted, ssl.Purpose.CLIENT_AUTH)
    except ValueError as error:
        raise SettingRefused(f"{setting}: {error}.") from None
    return context


def tls_principal(connection: ssl.SSLObject, tls: ListenerTls) -> str:
    """Return the principal of a client after its TLS handshake.

    Errors: ClientUnnamed.
    """
    certificate = connection.getpeercert(binary_form=True)
    if certificate is None:
        return ANONYMOUS
    name = distinguished_name(certificate)
    mapped = tls.principal_rules.name_or_none(name)
    if mapped is None:
        raise ClientUnnamed(
            "no rule of ssl.principal.mapping.rules fits the name of its certificate, "
            f"'{shortened(name, MAX_SHOWN)}'"
        )
    return f"User:{mapped}"


def is_no_tls(error: ssl.SSLError) -> bool:
    """Return whether a handshake failed because the client speaks no TLS."""
    return REASONS.get(error.reason or "") == NO_TLS


def handshake_fault(error: ssl.SSLError, listener: str) -> str:
    """Return why a TLS handshake failed, in words that follow "closed the connection of"."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return DISTRUST.get(error.verify_code) or unverified(error, "its client certificate")
    known = REASONS.get(error.reason or "")
    if known is None:
        return f"its TLS handshake failed: {openssl_reason(error)}"
    return known.format(listener)
