"""The hosts that a certificate is for are read from DER."""

import pytest
from cryptography.hazmat.primitives.serialization import Encoding

from apportion.security.host_names import host_names
from tests.certificates import Authority

HOSTS = ("kafka.example.com", "*.example.com", "127.0.0.1", "2001:db8::1")


@pytest.mark.parametrize("hosts", [HOSTS, ("kafka.example.com",)])
def test_names_and_addresses_are_in_the_order_of_the_certificate(hosts: tuple[str, ...]) -> None:
    issued = Authority().issue("broker", hosts).certificate
    assert host_names(issued.public_bytes(Encoding.DER)) == [*hosts]


@pytest.mark.parametrize("addresses", [(), ("127.0.0.1",)])
def test_without_a_dns_name_the_common_name_is_one(addresses: tuple[str, ...]) -> None:
    issued = Authority().issue("localhost", addresses).certificate
    assert host_names(issued.public_bytes(Encoding.DER)) == [*addresses, "localhost"]


def test_bytes_that_are_no_certificate_are_an_error() -> None:
    whole = Authority().issue("broker", HOSTS).certificate.public_bytes(Encoding.DER)
    for length in range(len(whole)):
        with pytest.raises(ValueError):
            host_names(whole[:length])
