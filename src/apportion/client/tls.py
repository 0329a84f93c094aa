"""TLS of a client: the `ssl.SSLContext` of its settings, and one sentence for each failure."""

import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from apportion.errors import Code, Refused
from apportion.security.client_security import TlsSettings
from apportion.security.key_stores import KeyStore, StoreKind

VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
NO_PKCS12 = (
    "PKCS12 files are read by the package cryptography, which is not installed: install "
    "apportion[security]"
)
JKS = (
    "is a Java keystore (JKS), which only Java reads: make PKCS12 of it by `keytool "
    "-importkeystore -srckeystore {0} -destkeystore {0}.p12 -deststoretype PKCS12` and set the "
    "type of the store to PKCS12"
)
JKS_MAGICS = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")
"""How a file of JKS begins, and one of JCEKS."""
# By the reason that OpenSSL gives. An alert is what the broker says of us.
REASONS = {
    "WRONG_VERSION_NUMBER": "it speaks no TLS: set security.protocol to PLAINTEXT or "
    "SASL_PLAINTEXT, or name a listener of SSL or SASL_SSL",
    "UNSUPPORTED_PROTOCOL": "it speaks older versions of TLS than this client accepts",
    "TLSV1_ALERT_PROTOCOL_VERSION": "it speaks none of the TLS versions that this client offers",
    "SSLV3_ALERT_HANDSHAKE_FAILURE": "the broker ended the handshake: it may want a client "
    "certificate, or TLS ciphers that this client does not have",
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": "the broker wants a client certificate (mTLS): set "
    "ssl.certificate.location and ssl.key.location, or a keystore",
    "TLSV1_ALERT_UNKNOWN_CA": "the broker does not trust the CA of this client's certificate",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "the broker does not accept this client's certificate",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "this client's certificate has expired",
    "SSLV3_ALERT_CERTIFICATE_REVOKED": "this client's certificate was revoked",
    "SSLV3_ALERT_BAD_CERTIFICATE": "the broker does not accept this client's certificate, or "
    "wants one and has got none (mTLS): see ssl.certificate.location and ssl.key.location, or "
    "the keystore",
}
REASONS["UNKNOWN_PROTOCOL"] = REASONS["HTTP_REQUEST"] = REASONS["WRONG_VERSION_NUMBER"]
REASONS["TLSV1_ALERT_ACCESS_DENIED"] = REASONS["SSLV3_ALERT_CERTIFICATE_UNKNOWN"]
# Of X509_verify_cert.
EXPIRED, NOT_YET_VALID, HOSTNAME_MISMATCH, IP_ADDRESS_MISMATCH = 10, 9, 62, 64
UNTRUSTED = (2, 7, 18, 19, 20, 21)
"""7 is a signature that does not fit: the CA was made anew under the same name."""
SPEAKS_TLS = (
    "the listener at {0} speaks TLS: set security.protocol to SSL, or to SASL_SSL if clients must "
    "authenticate there"
)


def tls_context(settings: TlsSettings) -> ssl.SSLContext:
    """Return the context of a client's TLS connections.

    Raises ValueError, in a sentence, for a file that cannot be read or used.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = VERSIONS[settings.versions[0]]
    context.maximum_version = VERSIONS[settings.versions[-1]]
    context.check_hostname = settings.checks_host_name and settings.checks_certificate
    if not settings.checks_certificate:
        context.verify_mode = ssl.CERT_NONE
    _trust(context, settings.trusted)
    if settings.identity is not None:
        certificate = settings.identity.certificate
        key = settings.identity.key or certificate
        _load_identity(context, certificate, key)
    return context


def _trust(context: ssl.SSLContext, trusted: KeyStore | None) -> None:
    """Trust the CA certificates of a store, or those of the system."""
    if trusted is None:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
        return
    text = _pem_of(trusted, "CA certificates")
    try:
        context.load_verify_locations(cadata=text.decode("ascii", "ignore"))
    except (ssl.SSLError, ValueError):
        raise ValueError(f"{_named(trusted)} has no CA certificate in PEM") from None


def _load_identity(context: ssl.SSLContext, certificate: KeyStore, key: KeyStore) -> None:
    """Have the context show this certificate."""
    chain = _pem_of(certificate, "the client certificate")
    is_one = (key.location, key.text) == (certificate.location, certificate.text)
    secret = b"" if is_one else _pem_of(key, "the client's key")
    # What PKCS12 had was decrypted already. The empty password keeps OpenSSL from asking the
    # terminal for one.
    password = "" if b"ENCRYPTED" not in chain + secret else key.password or ""
    with _as_file(chain + b"\n" + secret) as path:
        try:
            context.load_cert_chain(path, password=password)
        except (ssl.SSLError, OSError) as error:
            raise ValueError(_identity_fault(error, certificate, key)) from None


def _identity_fault(error: OSError, certificate: KeyStore, key: KeyStore) -> str:
    """Return why a certificate and its key cannot be used."""
    if getattr(error, "reason", None) == "KEY_VALUES_MISMATCH":
        return f"{_named(key)} has a key that does not belong to {_named(certificate)}"
    if key.password is None:
        return (
            f"{_named(key)} has no key in PEM that goes with {_named(certificate)}, or one that "
            "needs a password: set ssl.key.password"
        )
    return f"the key of {_named(key)} cannot be read: see that ssl.key.password is right"


@contextmanager
def _as_file(text: bytes) -> Iterator[str]:
    """Have the text in a file that nobody else may read; `ssl` takes keys from files alone."""
    with tempfile.NamedTemporaryFile(suffix=".pem") as file:
        file.write(text)
        file.flush()
        yield file.name


def _named(store: KeyStore) -> str:
    return f"the file {store.location!r}" if store.location else "the PEM text"


def _pem_of(store: KeyStore, what: str) -> bytes:
    """Return what a store holds as PEM. Raises ValueError."""
    if not store.location:
        return store.text.encode(errors="replace")
    try:
        with open(store.location, "rb") as file:
            content = file.read()
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise ValueError(f"{what}: the file {store.location!r} cannot be read: {why}") from None
    if content.startswith(JKS_MAGICS):
        raise ValueError(f"{what}: the file {store.location!r} {JKS.format(store.location)}")
    is_pem = store.kind is StoreKind.PEM or content.lstrip().startswith(b"-----BEGIN")
    return content if is_pem else _pem_of_pkcs12(store, content)


def _pem_of_pkcs12(store: KeyStore, content: bytes) -> bytes:
    """Return certificates and key of a PKCS12 file as PEM."""
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.serialization import pkcs12
    except ImportError:
        raise ValueError(NO_PKCS12) from None
    # No such error may have the password in it.
    password = store.password.encode(errors="replace") if store.password else None
    try:
        loaded = pkcs12.load_pkcs12(content, password)
    except ValueError:
        raise ValueError(
            f"{_named(store)} is no PKCS12, or its password is another one: see the password "
            "of the store"
        ) from None
    certificates = [each for each in (loaded.cert, *loaded.additional_certs) if each is not None]
    parts = [each.certificate.public_bytes(serialization.Encoding.PEM) for each in certificates]
    key: Any = loaded.key
    if key is not None:
        parts.append(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
    return b"".join(parts)


def handshake_failure_or_none(error: BaseException, address: str) -> Refused | None:
    """Return the final error that an error of TLS is; None for a connection that just broke."""
    why = _why_or_none(error, address.rpartition(":")[0])
    if why is None:
        return None
    return Refused(Code.SSL_HANDSHAKE_FAILED, f"no TLS with the broker at {address}: {why}")


def _why_or_none(error: BaseException, host: str) -> str | None:
    if isinstance(error, ssl.SSLCertVerificationError):
        return _distrust(error, host)
    # The end of the stream: the broker may be stopping.
    if not isinstance(error, ssl.SSLError) or isinstance(
        error, ssl.SSLEOFError | ssl.SSLZeroReturnError
    ):
        return None
    reason = error.reason or ""
    return REASONS.get(reason) or f"OpenSSL says {reason or 'no reason'}"


def _distrust(error: ssl.SSLCertVerificationError, host: str) -> str:
    """Return why a broker's certificate was not accepted, and what to do."""
    code = error.verify_code
    if code in (HOSTNAME_MISMATCH, IP_ADDRESS_MISMATCH):
        return (
            f"its certificate is not of the host {host!r}: name the broker as its certificate "
            "does, or set ssl.endpoint.identification.algorithm to none"
        )
    if code == EXPIRED:
        return "its certificate has expired"
    if code == NOT_YET_VALID:
        return "its certificate is not valid yet: see that the clock of this host is right"
    if code in UNTRUSTED:
        return (
            "its certificate is of no CA that this client trusts: set ssl.ca.location (Kafka: "
            "ssl.truststore.location) to the CA of the cluster"
        )
    return f"its certificate cannot be verified: {error.verify_message}"
