"""The hosts that a certificate is for: the extension subjectAltName (RFC 5280, section 4.2.1.6).

Where that has no DNS name, OpenSSL takes the common name of the subject for one, and so do we.
"""

from collections.abc import Iterable, Iterator
from ipaddress import ip_address

from apportion.security.der import CUT_OFF, SUBJECT, DerElement, elements, fields_of
from apportion.security.principals import STRINGS

EXTENSIONS = 0xA3
COMMON_NAME = b"\x55\x04\x03"  # 2.5.4.3
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
    fields = fields_of(certificate)
    has_dns_name = False
    for name in _alternative_names(fields):
        if name.tag == DNS_NAME:
            has_dns_name = True
            yield name.content.decode("ascii", "replace")
        elif name.tag == IP_ADDRESS:
            yield str(ip_address(name.content))
    if has_dns_name:
        return
    for part in elements(fields[SUBJECT].content):
        for attribute in elements(part.content):
            kind, value = elements(attribute.content)
            if kind.content == COMMON_NAME and value.tag in STRINGS:
                yield value.content.decode(STRINGS[value.tag], "replace")


def _alternative_names(fields: Iterable[DerElement]) -> Iterator[DerElement]:
    """Yield the names of subjectAltName, of every kind."""
    for field in fields:
        if field.tag != EXTENSIONS:
            continue
        [all_extensions] = elements(field.content)
        for extension in elements(all_extensions.content):
            identifier, *_, value = elements(extension.content)
            if identifier.content == SUBJECT_ALT_NAME:
                [names] = elements(value.content)
                yield from elements(names.content)
