"""Throw-away certificates: an authority, and what it issues to brokers and clients."""

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)
from cryptography.x509.oid import NameOID

DAY = timedelta(days=1)


class Issued(NamedTuple):
    """A certificate with its key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    def chain_pem(self) -> str:
        return self.certificate.public_bytes(Encoding.PEM).decode()

    def key_pem(self, password: str | None = None) -> str:
        encryption: KeySerializationEncryption = (
            NoEncryption() if password is None else BestAvailableEncryption(password.encode())
        )
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption).decode()

    def pkcs12(self, password: str) -> bytes:
        return pkcs12.serialize_key_and_certificates(
            b"client",
            self.key,
            self.certificate,
            None,
            BestAvailableEncryption(password.encode()),
        )


class Authority:
    """A CA of its own."""

    def __init__(self, name: str = "CA of a test") -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = _named(name)
        builder = _builder(subject, subject, key, DAY).add_extension(
            x509.BasicConstraints(ca=True, path_length=None), critical=True
        )
        self._issued = Issued(builder.sign(key, hashes.SHA256()), key)

    @property
    def pem(self) -> str:
        return self._issued.chain_pem()

    def trusted_pkcs12(self, password: str) -> bytes:
        """The CA's certificate as a truststore."""
        return pkcs12.serialize_key_and_certificates(
            None, None, None, [self._issued.certificate], BestAvailableEncryption(password.encode())
        )

    def issue(self, name: str, hosts: tuple[str, ...] = (), ends_in: timedelta = DAY) -> Issued:
        """A certificate of these hosts, names or addresses."""
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(_named(name), self._issued.certificate.subject, key, ends_in)
        if hosts:
            names = x509.SubjectAlternativeName([_general_name(host) for host in hosts])
            builder = builder.add_extension(names, critical=False)
        return Issued(builder.sign(self._issued.key, hashes.SHA256()), key)


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, ends_in: timedelta
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - 2 * DAY)
        .not_valid_after(now + ends_in)
    )


def written(directory: Path, name: str, content: str | bytes) -> str:
    """The path of a new file with this content."""
    path = directory / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return str(path)
