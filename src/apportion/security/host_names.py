"""The hosts that a certificate is for: the extension subjectAltName (RFC 5280, section 4.2.1.6)."""

from collections.abc import Iterator
from ipaddress import ip_address

from apportion.security.der import CUT_OFF, elements, fields_of

EXTENSIONS = 0xA3
SUBJECT_ALT_NAME = b"\x55\x1d\x11"  # 2.5.29.17
DNS_NAME, IP_ADDRESS = 0x82, 0x87
"""Tags of DER: of the extensions, and of a name and an address in one of them."""


def host_names(certificate: bytes) -> list[str]:
    """Return the names and addresses of the hosts that a certificate is for, in its order.

    certificate: in DER. Errors: ValueError for other bytes.
    """
    try:
        return [*_host_names(certificate)]
    except (IndexError, StopIteration):
        raise ValueError(CUT_OFF) from None


def _host_names(certificate: bytes) -> Iterator[str]:
    for field in fields_of(certificate):
        if field.tag != EXTENSIONS:
            continue
        [all_extensions] = elements(field.content)
        for extension in elements(all_extensions.content):
            identifier, *_, value = elements(extension.content)
            if identifier.content != SUBJECT_ALT_NAME:
                continue
            [names] = elements(value.content)
            for name in elements(names.content):
                if name.tag == DNS_NAME:
                    yield name.content.decode("ascii", "replace")
                elif name.tag == IP_ADDRESS:
                    yield str(ip_address(name.content))
