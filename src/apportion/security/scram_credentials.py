"""The credentials of SCRAM (RFC 5802): what a broker keeps of a password, and how it is computed.

A stored credential does not let anybody log in, but a salted password does. Kafka hashes a password
as it is, without SASLprep.
"""

import hashlib
from dataclasses import dataclass, field
from enum import Enum
from hmac import digest

MIN_ITERATIONS, MAX_ITERATIONS = 4_096, 16_384
"""Kafka's bounds of a credential's iterations (KIP-84, KIP-554)."""


class ScramMechanism(Enum):
    """The mechanisms, by their names in SaslHandshake, with the hash function of each."""

    SCRAM_SHA_256 = "SCRAM-SHA-256"
    SCRAM_SHA_512 = "SCRAM-SHA-512"

    @property
    def hash_name(self) -> str:
        """Return the name by which Python has the hash function."""
        return "sha" + self.value.rpartition("-")[2]

    @property
    def hash_bytes(self) -> int:
        """Return the length of a hash, of a key and of a proof."""
        return hashlib.new(self.hash_name).digest_size

    def hmac(self, key: bytes, text: bytes) -> bytes:
        """Return the HMAC of the text by this key."""
        return digest(key, text, self.hash_name)

    def hash(self, key: bytes) -> bytes:
        """Return the hash of a key."""
        return hashlib.new(self.hash_name, key).digest()


@dataclass(frozen=True, slots=True)
class ScramCredential:
    """The keys that a broker keeps in place of one user's password, for one mechanism."""

    iterations: int
    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Decoys:
    """Credentials of users that do not exist, so that a client cannot learn that they do not.

    The salt of an unknown user must be the same each time, as a real one is. No password fits.
    key: random bytes of the broker, the same as long as it runs. iterations: those of most users.
    Users with other iterations, or with a salt that is not as long as a hash, can still be told
    from users who do not exist.
    """

    key: bytes = field(repr=False)
    iterations: int = MIN_ITERATIONS

    def credential(self, mechanism: ScramMechanism, name: str) -> ScramCredential:
        """Return the credential of a user that does not exist."""
        salt, stored, server = (
            mechanism.hmac(self.key, f"{what} {name}".encode())
            for what in ("salt", "stored key", "server key")
        )
        return ScramCredential(self.iterations, salt, stored, server)


def salted_password(
    mechanism: ScramMechanism, password: str, salt: bytes, iterations: int
) -> bytes:
    """Return the salted password, which takes the time of that many iterations to compute."""
    return hashlib.pbkdf2_hmac(mechanism.hash_name, password.encode(), salt, iterations)


def credential_of(
    mechanism: ScramMechanism, salted: bytes, salt: bytes, iterations: int
) -> ScramCredential:
    """Return what a broker keeps of a salted password, as AlterUserScramCredentials brings it.

    Errors: ValueError for iterations or a length that a credential cannot have.
    """
    if not MIN_ITERATIONS <= iterations <= MAX_ITERATIONS:
        raise ValueError(
            f"a SCRAM credential has from {MIN_ITERATIONS} to {MAX_ITERATIONS} iterations, not "
            f"{iterations}"
        )
    if not salt or len(salted) != mechanism.hash_bytes:
        raise ValueError(
            f"a credential of {mechanism.value} has a salt, and a salted password of "
            f"{mechanism.hash_bytes} bytes"
        )
    stored_key = mechanism.hash(client_key(mechanism, salted))
    return ScramCredential(iterations, bytes(salt), stored_key, server_key(mechanism, salted))


def client_key(mechanism: ScramMechanism, salted: bytes) -> bytes:
    """Return the key by which a client proves that it has the salted password."""
    return mechanism.hmac(salted, b"Client Key")


def server_key(mechanism: ScramMechanism, salted: bytes) -> bytes:
    """Return the key by which a broker proves that it knows the user."""
    return mechanism.hmac(salted, b"Server Key")
