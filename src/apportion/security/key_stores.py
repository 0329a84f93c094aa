"""Certificates and keys as a client or a broker was given them: in a file, or as text.

The values hold no file that is open; the `repr` of none has a secret in it.
"""

from dataclasses import dataclass, field
from enum import Enum

TLS_VERSIONS = ("TLSv1.2", "TLSv1.3")
"""The versions of TLS that are offered, by Kafka's names."""


class StoreKind(Enum):
    """The formats of certificates and keys, by Kafka's names.

    JKS is what Java calls so, and reads: mostly PKCS12, since Java 9.
    """

    PEM = "PEM"
    PKCS12 = "PKCS12"
    JKS = "JKS"


class ClientAuth(Enum):
    """The certificate that a listener of TLS wants of its clients; the names are Kafka's."""

    NONE = "none"
    REQUESTED = "requested"
    REQUIRED = "required"


@dataclass(frozen=True, slots=True)
class KeyStore:
    """Certificates, a key, or both, as they were given.

    location: of a file. text: the PEM itself, in place of a file. password: of the store, or of the
    key in it.
    """

    kind: StoreKind = StoreKind.PEM
    location: str = ""
    text: str = field(default="", repr=False)
    password: str | None = field(default=None, repr=False)


def pem_lines(text: str) -> str:
    r"""Return PEM text with line ends, also where it is one line with \n in it."""
    return text.replace("\\n", "\n")
