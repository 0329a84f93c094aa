"""Throw-away certificates for tests: an authority, and what it issues to brokers and clients.

Nobody may trust such an authority but the tests that made it. It needs `cryptography`, of the extra
`security`.
"""

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
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
# Clients that check strictly want the purpose of an authority's key, and both keys' identifiers.
SIGNS_CERTIFICATES = x509.KeyUsage(
    digital_signature=False,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    key_cert_sign=True,
    crl_sign=True,
    encipher_only=False,
    decipher_only=False,
)


class Issued(NamedTuple):
    """A certificate with its key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    def chain_pem(self) -> str:
        """Return the certificate as PEM text."""
        return self.certificate.public_bytes(Encoding.PEM).decode()

    def key_pem(self, password: str | None = None) -> str:
        """Return the key as PEM text, encrypted if there is a password."""
        encryption: KeySerializationEncryption = (
            NoEncryption() if password is None else BestAvailableEncryption(password.encode())
        )
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption).decode()

    def pkcs12(self, password: str) -> bytes:
        """Return certificate and key as a keystore of PKCS12."""
        return pkcs12.serialize_key_and_certificates(
            b"client",
            self.key,
            self.certificate,
            None,
            BestAvailableEncryption(password.encode()),
        )


class CertificateAuthority:
    """A certificate authority of its own, which ends after a day."""

    def __init__(self, name: str = "CA of a test") -> None:
        """Make the authority's key, and its certificate."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = _named(name)
        builder = (
            _builder(subject, subject, key, DAY)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(SIGNS_CERTIFICATES, critical=True)
        )
        self._issued = Issued(builder.sign(key, hashes.SHA256()), key)

    @property
    def pem(self) -> str:
        """The authority's certificate, which clients have to trust, as PEM text."""
        return self._issued.chain_pem()

    def trusted_pkcs12(self, password: str) -> bytes:
        """Return the authority's certificate as a truststore of PKCS12."""
        return pkcs12.serialize_key_and_certificates(
            None, None, None, [self._issued.certificate], BestAvailableEncryption(password.encode())
        )

    def issue(self, name: str, hosts: tuple[str, ...] = (), ends_in: timedelta = DAY) -> Issued:
        """Return a new certificate with its key.

        name: its common name, CN. hosts: names and addresses of a broker. ends_in: negative for a
        certificate that has ended.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        authority = self._issued
        builder = _builder(_named(name), authority.certificate.subject, key, ends_in).add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key()),
            critical=False,
        )
        if hosts:
            names = x509.SubjectAlternativeName([_general_name(host) for host in hosts])
            builder = builder.add_extension(names, critical=False)
        return Issued(builder.sign(authority.key, hashes.SHA256()), key)


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
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
