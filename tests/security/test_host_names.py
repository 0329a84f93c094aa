"""The hosts that a certificate is for are read from DER."""

import pytest
from cryptography.hazmat.primitives.serialization import Encoding

from apportion.security.host_names import host_names
from tests.certificates import Authority

HOSTS = ("kafka.example.com", "*.example.com", "127.0.0.1", "2001:db8::1")


@pytest.mark.parametrize("hosts", [HOSTS, ()])
def test_names_and_addresses_are_in_the_order_of_the_certificate(hosts: tuple[str, ...]) -> None:
    issued = Authority().issue("broker", hosts).certificate
    assert host_names(issued.public_bytes(Encoding.DER)) == [*hosts]


def test_bytes_that_are_no_certificate_are_an_error() -> None:
    whole = Authority().issue("broker", HOSTS).certificate.public_bytes(Encoding.DER)
    for length in range(len(whole)):
        with pytest.raises(ValueError):
            host_names(whole[:length])
