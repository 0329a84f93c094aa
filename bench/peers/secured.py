"""A TLS listener of a broker, beside its plain one, with throw-away certificates."""

from pathlib import Path
from typing import NamedTuple

from apportion.server.certificates import CertificateAuthority
from apportion.testing.kafka import free_ports

PROTOCOLS = "listener.security.protocol.map"


class TlsListener(NamedTuple):
    """The address of a listener, the broker's key and certificate, and who has signed it.

    keystore: a PEM file. authority_pem: what clients have to trust.
    """

    bootstrap: str
    keystore: Path
    authority_pem: str

    def settings(self) -> dict[str, str]:
        """Return the broker settings of the keystore, the same for apportion and Kafka."""
        return {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(self.keystore)}

    def beside(self, properties: dict[str, str]) -> dict[str, str]:
        """Return Kafka's server.properties with this listener added."""
        added = {
            "listeners": f"{properties['listeners']},SSL://{self.bootstrap}",
            PROTOCOLS: f"{properties[PROTOCOLS]},SSL:SSL",
        }
        return properties | added | self.settings()


def tls_listener(directory: Path) -> TlsListener:
    """Return a listener on a free port, with a new certificate in this directory."""
    authority = CertificateAuthority()
    issued = authority.issue("broker", ("127.0.0.1",))
    keystore = (directory / "broker.pem").resolve()
    keystore.write_text(issued.key_pem() + issued.chain_pem())
    (port,) = free_ports(1)
    return TlsListener(f"127.0.0.1:{port}", keystore, authority.pem)
