"""The cause of a failed connection, from the kind of its error and OpenSSL's numbers.

The texts of Python's `ssl` change with its releases, and end in a line of its C code; OpenSSL's own
change with OpenSSL. They are repeated only for a fault of a certificate that has no sentence here.
"""

import ssl

STREAM_ENDS = (ssl.SSLEOFError, ssl.SSLZeroReturnError)
"""Which of the two a peer's hang-up is depends on the release of Python."""
# Of X509_verify_cert.
EXPIRED, NOT_YET_VALID, HOSTNAME_MISMATCH, IP_ADDRESS_MISMATCH = 10, 9, 62, 64
OTHER_HOST = (HOSTNAME_MISMATCH, IP_ADDRESS_MISMATCH)
NO_TRUSTED_CA = (2, 7, 18, 19, 20, 21)
"""7 is a signature that does not fit: the CA was made anew under the same name."""
FAULTS = {
    EXPIRED: "its certificate has expired",
    NOT_YET_VALID: "its certificate is not valid yet: see that the clock of this host is right",
    **dict.fromkeys(OTHER_HOST, "its certificate is of another host"),
    **dict.fromkeys(NO_TRUSTED_CA, "its certificate is of no CA that this host trusts"),
}


def closed_by(peer: str) -> str:
    """Return why a read failed at the end of the stream. peer: such as "broker"."""
    return f"closed by the {peer}"


def connection_fault(error: OSError, peer: str = "broker") -> str:
    """Return why a call of a socket failed: the operating system's words, or OpenSSL's name."""
    if isinstance(error, STREAM_ENDS):
        return closed_by(peer)
    if isinstance(error, ssl.SSLError):
        return openssl_reason(error)
    return error.strerror or str(error) or type(error).__name__


def openssl_reason(error: ssl.SSLError) -> str:
    """Return OpenSSL's name of an error."""
    return f"OpenSSL says {error.reason or 'no reason'}"


def certificate_fault(error: ssl.SSLCertVerificationError) -> str:
    """Return what is wrong with the certificate of a server."""
    return FAULTS.get(error.verify_code) or unverified(error, "its certificate")


def unverified(error: ssl.SSLCertVerificationError, certificate: str) -> str:
    """Return OpenSSL's words about a certificate, for faults without a sentence."""
    return f"{certificate} cannot be verified: {error.verify_message}"
