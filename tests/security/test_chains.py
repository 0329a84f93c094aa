"""Which certificate of a chain keeps clients away, compared with what OpenSSL thinks of the chain.

broker <- between <- root, a CA that clients trust; an older CA vouched for root, too
"""

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from cryptography.x509.oid import NameOID

from apportion.security.chains import invalid_link_or_none

NOW = datetime.now(UTC)
DAY = timedelta(days=1)
KEYS = {
    name: ec.generate_private_key(ec.SECP256R1()) for name in ("broker", "between", "root", "old")
}


def certificate(subject: str, issuer: str, ends_in: timedelta = DAY) -> x509.Certificate:
    """A certificate of one of the keys, by another one."""
    names = [
        x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]) for name in (subject, issuer)
    ]
    is_authority = subject != "broker"
    return (
        x509.CertificateBuilder()
        .subject_name(names[0])
        .issuer_name(names[1])
        .public_key(KEYS[subject].public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(NOW - 2 * DAY)
        .not_valid_after(NOW + ends_in)
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        .sign(KEYS[issuer], hashes.SHA256())
    )


BROKER, BETWEEN, ROOT = (
    certificate("broker", "between"),
    certificate("between", "root"),
    certificate("root", "root"),
)
ENDED = certificate("broker", "between", -DAY)
OLD_BETWEEN = certificate("between", "root", -DAY)
VOUCHED = certificate("root", "old", -DAY)
STRAY = certificate("old", "old", -DAY)


def is_accepted(chain: list[x509.Certificate], directory: Path) -> bool:
    """Whether a client that trusts ROOT accepts a server with this chain."""
    key = KEYS["broker"].private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    path = directory / "broker.pem"
    path.write_bytes(key + b"".join(each.public_bytes(Encoding.PEM) for each in chain))
    server, client = (
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER),
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
    )
    server.load_cert_chain(path)
    client.check_hostname = False
    client.load_verify_locations(cadata=ROOT.public_bytes(Encoding.PEM).decode())
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [client.wrap_bio(down, up), server.wrap_bio(up, down, server_side=True)]
    for _ in range(4):
        for side in sides:
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
            except ssl.SSLError:
                return False
    return True


@pytest.mark.parametrize(
    ("chain", "trusted", "link"),
    [
        ([BROKER, BETWEEN], [], None),
        ([BROKER, BETWEEN, ROOT], [], None),
        ([BROKER, BETWEEN, STRAY], [], None),
        ([ENDED, BETWEEN, ROOT], [ROOT], ENDED),
        ([BROKER, OLD_BETWEEN], [], OLD_BETWEEN),
        ([BROKER, OLD_BETWEEN, ROOT], [ROOT], OLD_BETWEEN),
        ([BROKER, OLD_BETWEEN, BETWEEN], [], None),
        ([BROKER, BETWEEN, VOUCHED], [ROOT], None),
        ([BROKER, BETWEEN, VOUCHED, ROOT], [], None),
        ([BROKER, BETWEEN, ROOT, VOUCHED, STRAY], [], None),
    ],
)
def test_a_certificate_is_named_that_is_not_valid_on_every_path(
    tmp_path: Path,
    chain: list[x509.Certificate],
    trusted: list[x509.Certificate],
    link: x509.Certificate | None,
) -> None:
    found, known = ([each.public_bytes(Encoding.DER) for each in some] for some in (chain, trusted))
    expected = None if link is None else link.public_bytes(Encoding.DER)
    assert invalid_link_or_none(found, NOW.timestamp(), lambda: known) == expected
    assert is_accepted(chain, tmp_path) == (link is None)


def test_an_expired_voucher_counts_where_nobody_is_known_to_trust_its_ca() -> None:
    chain = [each.public_bytes(Encoding.DER) for each in (BROKER, BETWEEN, VOUCHED)]
    assert invalid_link_or_none(chain, NOW.timestamp(), list) == chain[-1]
