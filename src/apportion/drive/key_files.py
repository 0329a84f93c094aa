"""Certificates and keys for TLS, read from PEM and PKCS12 into an `ssl.SSLContext`.

Clients and the broker read theirs in the same way. Whatever is wrong with a store is a ValueError
whose text is a sentence without its full stop; no secret is in it.
"""

import re
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from apportion.exports import install_command
from apportion.security.client_security import KAFKA_NAMES, OptionNames
from apportion.security.key_stores import KeyStore, StoreKind

VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
NO_PKCS12 = (
    "PKCS12 files are read by the package cryptography, which is not installed: "
    + install_command("security")
)
JKS = (
    "is a Java keystore (JKS), which only Java reads: make PKCS12 of it by `keytool "
    "-importkeystore -srckeystore {0} -destkeystore {0}.p12 -deststoretype PKCS12` and set the "
    "type of the store to PKCS12"
)
MAKE_PEM = "make PEM of it by `openssl pkcs12 -in {0} -nokeys -out {0}.pem`"
CERTIFICATE = re.compile("-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
JKS_MAGICS = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")
"""How a file of JKS begins, and one of JCEKS."""
PFX_VERSION = b"\x02\x01\x03"
"""How the outermost sequence of a PKCS12 file begins: with the number 3."""
LONGEST_TAG_BYTES = 6


def ca_advice(names: OptionNames = KAFKA_NAMES) -> str:
    """Return what to do about a PKCS12 file where CA certificates in PEM are expected."""
    return f"set {names.ca_type} to PKCS12, or {MAKE_PEM}" if names.ca_type else MAKE_PEM


def keystore_advice(names: OptionNames = KAFKA_NAMES) -> str:
    """Return what to do about a PKCS12 file where certificate or key in PEM are expected."""
    if names.keystore_type:
        return f"set {names.keystore_type} to PKCS12"
    return f"give it as {names.keystore_location}"


def trust(
    context: ssl.SSLContext,
    trusted: KeyStore | None,
    purpose: ssl.Purpose,
    names: OptionNames = KAFKA_NAMES,
) -> None:
    """Trust the CA certificates of a store, or those of the system. Errors: ValueError."""
    if trusted is None:
        context.load_default_certs(purpose)
        return
    text = pem_of(trusted, ca_advice(names))
    try:
        context.load_verify_locations(cadata=text.decode("ascii", "ignore"))
    except (ssl.SSLError, ValueError):
        raise ValueError(f"{_named(trusted)} has no CA certificate in PEM") from None


def trusted_certificates(trusted: KeyStore | None) -> list[bytes]:
    """Return the CA certificates of a store, or those of the system that are in one file, in DER.

    Errors: ValueError.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trust(context, trusted, ssl.Purpose.SERVER_AUTH)
    return context.get_ca_certs(binary_form=True)


def load_identity(
    context: ssl.SSLContext,
    certificate: KeyStore,
    key: KeyStore | None,
    names: OptionNames = KAFKA_NAMES,
) -> None:
    """Have the context show this certificate. key: None if it is in the same store.

    Errors: ValueError.
    """
    key = key or certificate
    chain = pem_of(certificate, keystore_advice(names))
    is_one = (key.location, key.text) == (certificate.location, certificate.text)
    secret = b"" if is_one else pem_of(key, keystore_advice(names))
    if b"CERTIFICATE-----" not in chain:
        raise ValueError(f"{_named(certificate)} has no certificate")
    if b" PRIVATE KEY-----" not in chain + secret:
        raise ValueError(f"{_named(key)} has no private key")
    if b"ENCRYPTED" in chain + secret and key.password is None:
        raise ValueError(f"the key of {_named(key)} needs a password: set {names.key_password}")
    # What PKCS12 had was decrypted already. The empty password keeps OpenSSL from asking the
    # terminal for one.
    password = "" if b"ENCRYPTED" not in chain + secret else key.password or ""
    with _as_file(chain + b"\n" + secret) as path:
        try:
            context.load_cert_chain(path, password=password)
        except (ssl.SSLError, OSError) as error:
            raise ValueError(_identity_fault(error, certificate, key, names)) from None


def certificates_of(store: KeyStore) -> list[bytes]:
    """Return the certificates of a store, in DER and in their order. Errors: ValueError."""
    text = pem_of(store, keystore_advice()).decode("ascii", "ignore")
    return [ssl.PEM_cert_to_DER_cert(each) for each in CERTIFICATE.findall(text)]


def _identity_fault(
    error: OSError, certificate: KeyStore, key: KeyStore, names: OptionNames
) -> str:
    """Return why a certificate and its key cannot be used."""
    if getattr(error, "reason", None) == "KEY_VALUES_MISMATCH":
        if (key.location, key.text) == (certificate.location, certificate.text):
            return f"{_named(key)} has a key and a certificate that do not belong together"
        return f"{_named(key)} has a key that does not belong to {_named(certificate)}"
    if key.password is None:
        return f"certificate or key of {_named(key)} cannot be read: one of them is damaged"
    return f"the key of {_named(key)} cannot be read: see that {names.key_password} is right"


@contextmanager
def _as_file(text: bytes) -> Iterator[str]:
    """Have the text in a file that nobody else may read; `ssl` takes keys from files alone."""
    with tempfile.NamedTemporaryFile(suffix=".pem") as file:
        file.write(text)
        file.flush()
        yield file.name


def _named(store: KeyStore) -> str:
    return f"the file {store.location!r}" if store.location else "the PEM text"


def pem_of(store: KeyStore, advice: str) -> bytes:
    """Return what a store holds as PEM. Raises ValueError.

    advice: what to do where it is PKCS12 and was not said to be; {0} is the file.
    """
    if not store.location:
        return store.text.encode(errors="replace")
    try:
        with open(store.location, "rb") as file:
            content = file.read()
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise ValueError(f"the file {store.location!r} cannot be read: {why}") from None
    if content.startswith(JKS_MAGICS):
        raise ValueError(f"the file {store.location!r} {JKS.format(store.location)}")
    is_pkcs12 = content[:1] == b"0" and PFX_VERSION in content[1 : LONGEST_TAG_BYTES + 3]
    if is_pkcs12 and store.kind is StoreKind.PEM:
        raise ValueError(f"{_named(store)} is PKCS12: {advice.format(store.location)}")
    # Java's PEM may have a text before each part.
    is_pem = store.kind is StoreKind.PEM or (not is_pkcs12 and b"-----BEGIN " in content)
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
