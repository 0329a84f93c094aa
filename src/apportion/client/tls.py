"""TLS of a client: the `ssl.SSLContext` of its settings, and one sentence for each failure."""

import ssl
import time
from typing import NamedTuple

from apportion.drive.connection_errors import (
    EXPIRED,
    NO_TRUSTED_CA,
    NOT_YET_VALID,
    OTHER_HOST,
    STREAM_ENDS,
    openssl_reason,
    unverified,
)
from apportion.drive.key_files import VERSIONS, load_identity, trust
from apportion.errors import Code, Refused
from apportion.readable import listed, shortened
from apportion.security.client_security import KAFKA_NAMES, OptionNames, TlsSettings
from apportion.security.host_names import host_names
from apportion.security.principals import MAX_SHOWN, distinguished_name, issuer_name
from apportion.security.validity import Validity, utc_text, validity

NO_TLS = (
    "it speaks no TLS: set {protocol} to PLAINTEXT or SASL_PLAINTEXT, or name a listener of SSL or "
    "SASL_SSL"
)
OWN_CERTIFICATE = "set {certificate} and {key}, or {keystore_location}"
# By the reason that OpenSSL gives. An alert is what the broker says of us.
REASONS = {
    "WRONG_VERSION_NUMBER": NO_TLS,
    "UNSUPPORTED_PROTOCOL": "it speaks older versions of TLS than this client accepts",
    "TLSV1_ALERT_PROTOCOL_VERSION": "it speaks none of the TLS versions that this client offers",
    "SSLV3_ALERT_HANDSHAKE_FAILURE": "the broker ended the handshake: it may want a client "
    "certificate, or TLS ciphers that this client does not have",
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": "the broker wants a client certificate (mTLS): "
    + OWN_CERTIFICATE,
    "TLSV1_ALERT_UNKNOWN_CA": "the broker does not trust the CA of this client's certificate",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "the broker does not accept this client's certificate",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "this client's certificate has expired",
    "SSLV3_ALERT_CERTIFICATE_REVOKED": "this client's certificate was revoked",
    "SSLV3_ALERT_BAD_CERTIFICATE": "the broker does not accept this client's certificate, or "
    "wants one and has got none (mTLS): " + OWN_CERTIFICATE,
}
REASONS["UNKNOWN_PROTOCOL"] = REASONS["HTTP_REQUEST"] = REASONS["WRONG_VERSION_NUMBER"]
REASONS["TLSV1_ALERT_ACCESS_DENIED"] = REASONS["SSLV3_ALERT_CERTIFICATE_UNKNOWN"]
MOST_HOSTS = 5
SPEAKS_TLS = (
    "the listener at {address} speaks TLS: set {protocol} to SSL, or to SASL_SSL if clients must "
    "authenticate there"
)


def tls_context(settings: TlsSettings, names: OptionNames = KAFKA_NAMES) -> ssl.SSLContext:
    """Return the context of a client's TLS connections.

    Raises ValueError, in a sentence, for a file that cannot be read or used.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = VERSIONS[settings.versions[0]]
    context.maximum_version = VERSIONS[settings.versions[-1]]
    context.check_hostname = settings.checks_host_name and settings.checks_certificate
    if not settings.checks_certificate:
        context.verify_mode = ssl.CERT_NONE
    what = "CA certificates"
    try:
        trust(context, settings.trusted, ssl.Purpose.SERVER_AUTH, names)
        what = "the client certificate"
        if settings.identity is not None:
            load_identity(context, settings.identity.certificate, settings.identity.key, names)
    except ValueError as error:
        raise ValueError(f"{what}: {error}") from None
    return context


def handshake_failure_or_none(
    error: BaseException,
    address: str,
    certificate: bytes = b"",
    names: OptionNames = KAFKA_NAMES,
) -> Refused | None:
    """Return the final error that an error of TLS is; None for a connection that just broke.

    certificate: the broker's, in DER, if it is known.
    """
    why = _why_or_none(error, address.rpartition(":")[0], certificate, names)
    return None if why is None else _refused(address, why)


def no_tls(address: str, names: OptionNames) -> Refused:
    """Return the final error of a listener that speaks no TLS."""
    return _refused(address, NO_TLS.format(protocol=names.protocol))


def speaks_tls(address: str, names: OptionNames) -> Refused:
    """Return the final error of a listener that speaks TLS to a client that does not."""
    text = SPEAKS_TLS.format(address=address, protocol=names.protocol)
    return Refused(Code.SSL_HANDSHAKE_FAILED, text)


def _refused(address: str, why: str) -> Refused:
    return Refused(Code.SSL_HANDSHAKE_FAILED, f"no TLS with the broker at {address}: {why}")


def _why_or_none(
    error: BaseException, host: str, certificate: bytes, names: OptionNames
) -> str | None:
    if isinstance(error, ssl.SSLCertVerificationError):
        return _distrust(error, host, _presented_or_none(certificate), names)
    # The end of the stream: the broker may be stopping.
    if not isinstance(error, ssl.SSLError) or isinstance(error, STREAM_ENDS):
        return None
    known = REASONS.get(error.reason or "")
    return openssl_reason(error) if known is None else known.format(**names._asdict())


class _Presented(NamedTuple):
    """A certificate that was not accepted, for sentences. name: empty if it has none."""

    name: str
    issuer: str
    hosts: list[str]
    times: Validity

    @property
    def apposition(self) -> str:
        """The name between commas, for the middle of a sentence."""
        return f", {self.name}," if self.name else ""


def _presented_or_none(certificate: bytes) -> _Presented | None:
    """Return what a certificate says; None for one that is not known, or cannot be read here."""
    try:
        name, issuer = distinguished_name(certificate), issuer_name(certificate)
        hosts, times = host_names(certificate), validity(certificate)
    except ValueError:
        return None
    return _Presented(
        shortened(name, MAX_SHOWN),
        shortened(issuer, MAX_SHOWN),
        [shortened(host, MAX_SHOWN) for host in hosts],
        times,
    )


def _distrust(
    error: ssl.SSLCertVerificationError,
    host: str,
    presented: _Presented | None,
    names: OptionNames,
) -> str:
    """Return why a broker's certificate was not accepted, and what to do."""
    code = error.verify_code
    if code in OTHER_HOST:
        return (
            f"{_foreign_host(host, presented)}: name the broker as its certificate does, or set "
            f"{names.endpoint_identification} to none"
        )
    if code in (EXPIRED, NOT_YET_VALID):
        clock = "" if code == EXPIRED else ": see that the clock of this host is right"
        return f"{_not_now(code, presented)}{clock}"
    if code in NO_TRUSTED_CA:
        of = "" if presented is None else f"{presented.apposition} issued by {presented.issuer},"
        return (
            f"its certificate{of} is of no CA that this client trusts: set "
            f"{names.ca_location} to the CA of the cluster"
        )
    return unverified(error, "its certificate")


def _foreign_host(host: str, presented: _Presented | None) -> str:
    if presented is None:
        return f"its certificate is not of the host {host!r}"
    hosts = listed(presented.hosts, MOST_HOSTS) or "no host at all"
    return f"its certificate{presented.apposition} is for {hosts}, and not for the host {host!r}"


def _not_now(code: int, presented: _Presented | None) -> str:
    """Return that a certificate has expired, or is not valid yet, with the time if it is known."""
    what = "has expired" if code == EXPIRED else "is not valid yet"
    if presented is None:
        return f"its certificate {what}"
    first_s, last_s = presented.times
    now_s = time.time()
    if first_s <= now_s <= last_s:
        return f"a certificate of the chain of its certificate{presented.apposition} {what}"
    if code == EXPIRED:
        return (
            f"its certificate{presented.apposition} {what}: it was valid until {utc_text(last_s)}"
        )
    return f"its certificate{presented.apposition} {what}, but from {utc_text(first_s)} on"
