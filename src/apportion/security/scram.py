"""SASL SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677, KIP-84).

Client and server prove to each other that they know the password, or what is kept of it, and send
neither. Four messages:

    client   n,,n=USER,r=CLIENT_NONCE
    server   r=CLIENT_NONCE SERVER_NONCE,s=SALT,i=ITERATIONS
    client   c=HEADER,r=NONCES,p=PROOF
    server   v=SIGNATURE

Proof and signature are taken over all messages before them, with keys that are made from the
salted password. So a proof that somebody has overheard is worth nothing in another exchange, whose
nonces differ, and a peer that changes a message on its way breaks both.

A Kafka takes names of ASCII characters alone.
"""

from collections.abc import Mapping
from hmac import compare_digest
from typing import Never

from apportion.security.exchange import (
    Authenticated,
    AuthenticationFailed,
    Exchange,
    Mechanism,
    UnacceptableBytes,
    as_text,
    require_text,
    shown,
)
from apportion.security.gs2 import escaped_name, parsed_header, unescaped_name
from apportion.security.scram_credentials import (
    MAX_ITERATIONS,
    MIN_ITERATIONS,
    Decoys,
    ScramCredential,
    ScramMechanism,
    client_key,
    salted_password,
    server_key,
)
from apportion.security.scram_messages import attributes, decoded, encoded, is_nonce

MOST_BYTES = 8_192
"""Messages of SCRAM have a name, two nonces and a salt."""
HEADER = "n,,"
"""The client binds no TLS channel, and acts as itself."""


def client(
    mechanism: ScramMechanism, name: str, password: str, nonce: str
) -> Exchange[Never, Never]:
    """Return the client's side of SCRAM, for this user.

    nonce: random characters for this exchange alone, printable and without a comma.
    Errors: ValueError for a name or password that cannot be; its text has neither.
    """
    require_text(name, "name of a user")
    require_text(password, "password")
    assert is_nonce(nonce), "a nonce has printable characters, but for the comma"
    return Exchange(_client(mechanism, name, password, nonce), MOST_BYTES)


def server(
    mechanism: ScramMechanism,
    credentials: Mapping[str, ScramCredential],
    decoys: Decoys,
    nonce: str,
) -> Exchange[Never, Never]:
    """Return the server's side of SCRAM.

    credentials: of all users that have one of this mechanism, by their names. decoys: for other
    users. nonce: random characters for this exchange alone, printable and without a comma.
    """
    assert is_nonce(nonce), "a nonce has printable characters, but for the comma"
    return Exchange(_server(mechanism, credentials, decoys, nonce), MOST_BYTES)


def _client(
    mechanism: ScramMechanism, name: str, password: str, nonce: str
) -> Mechanism[Never, Never]:
    yield b""
    first = f"n={escaped_name(name)},r={nonce}"
    challenge = _accepted((yield f"{HEADER}{first}".encode()))
    (nonces, salt, iterations), _ = attributes(challenge, "rsi")
    if not is_nonce(nonces) or not nonces.startswith(nonce) or nonces == nonce:
        raise UnacceptableBytes("the server's nonce does not go on with the client's")
    salted = salted_password(mechanism, password, _salt(salt), _iterations(iterations))
    final = f"c={encoded(HEADER.encode())},r={nonces}"
    signed = ",".join((first, challenge, final)).encode()
    key = client_key(mechanism, salted)
    proof = _xor(key, mechanism.hmac(mechanism.hash(key), signed))
    answer = _accepted((yield f"{final},p={encoded(proof)}".encode()))
    (signature,), _ = attributes(answer, "v")
    expected = mechanism.hmac(server_key(mechanism, salted), signed)
    if not compare_digest(decoded(signature), expected):
        raise UnacceptableBytes("the server has not proved that it knows the user's password")
    return Authenticated()


def _server(
    mechanism: ScramMechanism,
    credentials: Mapping[str, ScramCredential],
    decoys: Decoys,
    nonce: str,
) -> Mechanism[Never, Never]:
    header = parsed_header(as_text((yield b"")))
    (escaped, client_nonce), extensions = attributes(header.rest, "nr")
    if not escaped or not is_nonce(client_nonce):
        raise UnacceptableBytes("the client's first message has no user or no nonce")
    if extensions.get("tokenauth") == "true":
        raise UnacceptableBytes("the client has a delegation token, of which there are none here")
    name = unescaped_name(escaped)
    user = f"user {shown(name)}"
    known = credentials.get(name)
    # An unknown user is led to the proof, where a wrong password ends, too.
    credential = known or decoys.credential(mechanism, name)
    nonces = client_nonce + nonce
    challenge = f"r={nonces},s={encoded(credential.salt)},i={credential.iterations}"
    answer = as_text((yield challenge.encode()))
    final, _, proof = answer.rpartition(",p=")
    (binding, nonces_again), _ = attributes(final, "cr")
    if decoded(binding) != header.text.encode() or nonces_again != nonces:
        raise UnacceptableBytes("the client's last message does not continue its first one")
    signed = ",".join((header.rest, challenge, final)).encode()
    if not _is_proved(mechanism, credential, decoded(proof), signed):
        what = "gave a wrong password" if known else f"has no credential of {mechanism.value}"
        return AuthenticationFailed(f"{user} {what}")
    if header.authorization not in ("", name):
        return AuthenticationFailed(f"{user} wants to act as {shown(header.authorization)}")
    signature = mechanism.hmac(credential.server_key, signed)
    return Authenticated(name, f"v={encoded(signature)}".encode())


def _is_proved(
    mechanism: ScramMechanism, credential: ScramCredential, proof: bytes, signed: bytes
) -> bool:
    """Return whether the client has the key of which the credential has the hash."""
    if len(proof) != mechanism.hash_bytes:
        return False
    key = _xor(proof, mechanism.hmac(credential.stored_key, signed))
    return compare_digest(mechanism.hash(key), credential.stored_key)


def _accepted(received: bytes) -> str:
    """Return the server's message, unless it is an error. Errors: UnacceptableBytes."""
    message = as_text(received)
    # A Kafka reports errors in SaslAuthenticate instead.
    if message.startswith("e="):
        raise UnacceptableBytes(f"the server refuses: {shown(message[2:])}")
    return message


def _salt(text: str) -> bytes:
    """Return the salt of the server's challenge. Errors: UnacceptableBytes."""
    salt = decoded(text)
    if not salt:
        raise UnacceptableBytes("the server's challenge has no salt")
    return salt


def _iterations(text: str) -> int:
    """Return the iterations of the server's challenge. Errors: UnacceptableBytes."""
    # A server that wants few would make the password cheap to guess; one that wants many would keep
    # the client computing.
    is_number = text.isascii() and text.isdigit() and len(text) <= len(str(MAX_ITERATIONS))
    if not is_number or not MIN_ITERATIONS <= int(text) <= MAX_ITERATIONS:
        raise UnacceptableBytes(
            f"the server asks for {shown(text)} iterations, where {MIN_ITERATIONS} to "
            f"{MAX_ITERATIONS} are allowed"
        )
    return int(text)


def _xor(left: bytes, right: bytes) -> bytes:
    return bytes(one ^ other for one, other in zip(left, right, strict=True))
