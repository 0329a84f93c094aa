"""SCRAM: the example of RFC 7677, both sides against each other, and peers that cheat."""

import base64
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apportion.security import scram
from apportion.security.exchange import REJECTED, Authenticated, AuthenticationFailed
from apportion.security.scram_credentials import (
    MAX_ITERATIONS,
    MIN_ITERATIONS,
    Decoys,
    ScramCredential,
    ScramMechanism,
    credential_of,
    salted_password,
)
from apportion.security.scram_messages import is_nonce

SHA_256, SHA_512 = ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512
# RFC 7677, section 3
USER, PASSWORD = "user", "pencil"
CLIENT_NONCE, SERVER_NONCE = "rOprNGfwEbeRWgbNEkqO", "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
NONCES = CLIENT_NONCE + SERVER_NONCE
SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
CLIENT_FIRST = f"n,,n={USER},r={CLIENT_NONCE}".encode()
SERVER_FIRST = f"r={NONCES},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096".encode()
CLIENT_FINAL = f"c=biws,r={NONCES},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=".encode()
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
DECOYS = Decoys(b"the key of this broker")
WRONG = "c=biws,r={},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVA="
"""The client's last message with a proof that is wrong."""


def stored(
    mechanism: ScramMechanism, password: str, iterations: int = MIN_ITERATIONS
) -> ScramCredential:
    """What a broker keeps of a password."""
    salted = salted_password(mechanism, password, SALT, iterations)
    return credential_of(mechanism, salted, SALT, iterations)


USERS = {USER: stored(SHA_256, PASSWORD)}


def rfc_client() -> Any:
    return scram.client(SHA_256, USER, PASSWORD, CLIENT_NONCE)


def rfc_server(users: Mapping[str, ScramCredential] = USERS) -> Any:
    return scram.server(SHA_256, users, DECOYS, SERVER_NONCE)


def played(client: Any, server: Any) -> tuple[Any, Any]:
    """How the exchange ends at the client (None where the server ends it before) and the server."""
    from_client = client.step(b"")
    while True:
        from_server = server.step(from_client)
        if isinstance(from_server, AuthenticationFailed):
            return None, from_server
        if isinstance(from_server, Authenticated):
            return client.step(from_server.reply), from_server
        from_client = client.step(from_server)
        if not isinstance(from_client, bytes):
            return from_client, None


def test_the_client_says_what_rfc_7677_has_it_say() -> None:
    client = rfc_client()
    assert client.step(b"") == CLIENT_FIRST
    assert client.step(SERVER_FIRST) == CLIENT_FINAL
    assert client.step(SERVER_FINAL) == Authenticated()


def test_the_server_says_what_rfc_7677_has_it_say() -> None:
    server = rfc_server()
    assert server.step(CLIENT_FIRST) == SERVER_FIRST
    assert server.step(CLIENT_FINAL) == Authenticated(USER, SERVER_FINAL)


@pytest.mark.parametrize("mechanism", ScramMechanism)
@pytest.mark.parametrize("iterations", [MIN_ITERATIONS, MAX_ITERATIONS])
@pytest.mark.parametrize("name", ["alice", "a=b,c", "=2C", "zoë", " "])
def test_a_client_and_a_server_that_know_the_password_agree(
    mechanism: ScramMechanism, iterations: int, name: str
) -> None:
    users = {name: stored(mechanism, "pässwörd ª", iterations)}
    ends = played(
        scram.client(mechanism, name, "pässwörd ª", "abc"),
        scram.server(mechanism, users, DECOYS, "def"),
    )
    signature = ends[1].reply
    assert ends == (Authenticated(), Authenticated(name, signature))
    assert len(signature) == 2 + len(base64.b64encode(bytes(mechanism.hash_bytes)))


@settings(max_examples=20, deadline=None)
@given(st.text(min_size=1, max_size=9).filter(lambda text: "\0" not in text and text.isprintable()))
def test_only_the_very_password_is_right(password: str) -> None:
    ends = played(scram.client(SHA_256, USER, password, "abc"), rfc_server())
    assert ends == (None, AuthenticationFailed(f"user '{USER}' gave a wrong password", REJECTED))


def test_a_credential_of_the_other_mechanism_is_of_no_use() -> None:
    users = {USER: stored(SHA_512, PASSWORD)}
    end = played(rfc_client(), scram.server(SHA_256, users, DECOYS, SERVER_NONCE))[1]
    assert end == AuthenticationFailed("user 'user' gave a wrong password")


def test_an_unknown_user_takes_the_path_of_a_wrong_password() -> None:
    first = CLIENT_FIRST.replace(b"n=user", b"n=nobody")
    servers = [rfc_server(), rfc_server()]
    challenges = [server.step(first) for server in servers]
    # The same salt each time, and the sizes of a real one's.
    assert challenges[0] == challenges[1]
    salt = base64.b64decode(challenges[0].partition(b",s=")[2].partition(b",i=")[0])
    assert challenges[0] == (
        f"r={NONCES},s={base64.b64encode(salt).decode()},i={MIN_ITERATIONS}".encode()
    )
    assert len(salt) == SHA_256.hash_bytes
    unknown = servers[0].step(WRONG.format(NONCES).encode())
    known = rfc_server()
    known.step(CLIENT_FIRST)
    wrong = known.step(WRONG.format(NONCES).encode())
    assert (unknown.why, wrong.why) == (
        "user 'nobody' has no credential of SCRAM-SHA-256",
        "user 'user' gave a wrong password",
    )
    assert unknown.sentence == wrong.sentence == REJECTED


def test_unknown_users_have_salts_of_their_own() -> None:
    salts = {
        DECOYS.credential(mechanism, name).salt
        for mechanism in ScramMechanism
        for name in ("a", "b")
    } | {Decoys(b"another broker").credential(SHA_256, "a").salt}
    assert len(salts) == 5


def test_a_user_may_act_as_himself_and_as_nobody_else() -> None:
    def acting_as(name: str) -> Any:
        server = rfc_server()
        header = f"n,a={name},"
        challenge = server.step(header.encode() + CLIENT_FIRST[3:]).decode()
        final = f"c={base64.b64encode(header.encode()).decode()},r={NONCES}"
        signed = f"{CLIENT_FIRST[3:].decode()},{challenge},{final}".encode()
        key = SHA_256.hmac(salted_password(SHA_256, PASSWORD, SALT, 4096), b"Client Key")
        signature = SHA_256.hmac(SHA_256.hash(key), signed)
        proof = bytes(one ^ other for one, other in zip(key, signature, strict=True))
        return server.step(f"{final},p={base64.b64encode(proof).decode()}".encode())

    assert acting_as("user").name == "user"
    assert acting_as("root") == AuthenticationFailed("user 'user' wants to act as 'root'")


@pytest.mark.parametrize(
    ("first", "why"),
    [
        (b"", "the client's first message has no GS2 header"),
        (b"x,,n=user,r=abc", "the client's first message has no GS2 header"),
        (b"n", "the client's first message has no GS2 header"),
        (
            b"p=tls-unique,,n=user,r=abc",
            "the client wants to bind the exchange to its TLS channel",
        ),
        (
            b"n,user,n=user,r=abc",
            "the client's GS2 header has something else than an identity",
        ),
        (b"n,a==2,n=user,r=abc", "a name in the client's first message is wrongly escaped"),
        (b"n,,n==41,r=abc", "a name in the client's first message is wrongly escaped"),
        (
            b"n,,m=x,n=user,r=abc",
            "the peer insists on an extension of SCRAM, and none is known",
        ),
        (b"n,,r=abc,n=user", "a message of SCRAM does not begin with n, r"),
        (b"n,,n=user", "a message of SCRAM does not begin with n, r"),
        *(
            (
                b"n,,n=user,r=abc," + part,
                "a message of SCRAM has a part that is no attribute",
            )
            for part in (b"", b"x", b"1=x", b"=x", b"\xc3\xa9=x", b"a-b=x")
        ),
        (b"n,,n=user,r=", "the client's first message has no user or no nonce"),
        (b"n,,n=,r=abc", "the client's first message has no user or no nonce"),
        (b"n,,n=user,r=\x07", "the client's first message has no user or no nonce"),
        (
            b"n,,n=id,r=abc,tokenauth=true",
            "the client has a delegation token, of which there are none here",
        ),
        (b"n,,n=\xff,r=abc", "the peer's message is not UTF-8"),
        (b"n,,n=user,r=" + b"a" * 8_192, "the peer sent 8204 bytes, and 8192 are allowed"),
    ],
)
def test_a_first_message_that_is_wrong_fails_with_the_reason(first: bytes, why: str) -> None:
    assert rfc_server().step(first) == AuthenticationFailed(why, REJECTED)


def test_a_client_that_could_bind_its_channel_is_let_in() -> None:
    server = rfc_server()
    assert server.step(CLIENT_FIRST.replace(b"n,,", b"y,,")) == SERVER_FIRST
    # The header that it repeats must be the one that it sent: "eSws" is "y,,".
    other = server.step(CLIENT_FINAL)
    assert other.why == "the client's last message does not continue its first one"


@pytest.mark.parametrize(
    ("nonce", "is_right"),
    [("!~", True), ("", False), (" ", False), ("a b", False), ("\x7f", False), ("a,b", False)],
)
def test_a_nonce_is_printable_and_has_no_comma(nonce: str, is_right: bool) -> None:
    assert is_nonce(nonce) is is_right


def test_extensions_are_ignored_and_signed() -> None:
    server = rfc_server()
    assert server.step(CLIENT_FIRST + b",tokenauth=false,x=1") == SERVER_FIRST
    assert server.step(CLIENT_FINAL) == AuthenticationFailed("user 'user' gave a wrong password")


@pytest.mark.parametrize(
    ("final", "why"),
    [
        (b"", "a message of SCRAM has a part that is no attribute"),
        (CLIENT_FINAL.partition(b",p=")[0], "a message of SCRAM has a part that is no attribute"),
        (
            CLIENT_FINAL.replace(b"k0,", b"k1,"),
            "the client's last message does not continue its first one",
        ),
        (
            CLIENT_FINAL.replace(b"biws", b"eSws"),
            "the client's last message does not continue its first one",
        ),
        (CLIENT_FINAL.replace(b"biws", b"bi*s"), "a message of SCRAM has what is not base64"),
        (
            CLIENT_FINAL.replace(b"biws", b"bi\xc3\xa9s"),
            "a message of SCRAM has what is not base64",
        ),
        (CLIENT_FINAL + b"=", "a message of SCRAM has what is not base64"),
        (CLIENT_FINAL.partition(b",p=")[0] + b",p=", "user 'user' gave a wrong password"),
        (CLIENT_FINAL.partition(b",p=")[0] + b",p=AAAA", "user 'user' gave a wrong password"),
    ],
)
def test_a_last_message_that_is_wrong_fails_with_the_reason(final: bytes, why: str) -> None:
    server = rfc_server()
    server.step(CLIENT_FIRST)
    assert server.step(final) == AuthenticationFailed(why, REJECTED)


def test_an_overheard_proof_is_worth_nothing_in_another_exchange() -> None:
    server = scram.server(SHA_256, USERS, DECOYS, "another-nonce")
    server.step(CLIENT_FIRST)
    final = CLIENT_FINAL.replace(SERVER_NONCE.encode(), b"another-nonce")
    assert server.step(final) == AuthenticationFailed("user 'user' gave a wrong password")


@pytest.mark.parametrize(
    ("challenge", "why"),
    [
        (b"", "a message of SCRAM has a part that is no attribute"),
        (b"e=unknown-user", "the server refuses: 'unknown-user'"),
        (
            SERVER_FIRST.replace(b"r=rO", b"r=xO"),
            "the server's nonce does not go on with the client's",
        ),
        (
            SERVER_FIRST.replace(SERVER_NONCE.encode(), b""),
            "the server's nonce does not go on with the client's",
        ),
        (
            SERVER_FIRST.replace(b"%hv", b"% v"),
            "the server's nonce does not go on with the client's",
        ),
        (b"m=x," + SERVER_FIRST, "the peer insists on an extension of SCRAM, and none is known"),
        (
            SERVER_FIRST.replace(b"s=W22ZaJ0SNY7soEsUEjb6gQ==", b"s="),
            "the server's challenge has no salt",
        ),
        *(
            (
                SERVER_FIRST.replace(b"4096", iterations.encode()),
                f"the server asks for '{iterations}' iterations, where 4096 to 16384 are allowed",
            )
            for iterations in ("4095", "16385", "10000000", "-4096", "+4096", "4_096", "\u0664096")
        ),
    ],
)
def test_a_client_does_not_answer_a_challenge_that_is_wrong(challenge: bytes, why: str) -> None:
    client = rfc_client()
    client.step(b"")
    assert client.step(challenge) == AuthenticationFailed(why)


@pytest.mark.parametrize("iterations", ["004096", "9" * 5_000])
def test_a_client_reads_no_number_of_more_digits_than_it_can_have(iterations: str) -> None:
    # Python refuses to read a number of more than 4,300 digits, by an exception.
    client = rfc_client()
    client.step(b"")
    end = client.step(SERVER_FIRST.replace(b"4096", iterations.encode()))
    assert end.why.endswith("iterations, where 4096 to 16384 are allowed")
    assert len(end.why) < 150


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (
            SERVER_FINAL.replace(b"v=6", b"v=7"),
            "the server has not proved that it knows the user's password",
        ),
        (b"v=", "the server has not proved that it knows the user's password"),
        (b"", "a message of SCRAM has a part that is no attribute"),
        (b"e=invalid-proof", "the server refuses: 'invalid-proof'"),
    ],
)
def test_a_server_that_does_not_know_the_password_is_not_believed(answer: bytes, why: str) -> None:
    client = rfc_client()
    client.step(b"")
    client.step(SERVER_FIRST)
    assert client.step(answer) == AuthenticationFailed(why)


@pytest.mark.parametrize(
    ("salted", "salt", "iterations", "sentence"),
    [
        (bytes(32), b"salt", 4_095, "from 4096 to 16384 iterations, not 4095"),
        (bytes(32), b"salt", 16_385, "from 4096 to 16384 iterations, not 16385"),
        (bytes(31), b"salt", 4_096, "a salted password of 32 bytes"),
        (bytes(32), b"", 4_096, "a salt, and a salted password of 32 bytes"),
    ],
)
def test_a_credential_that_kafka_would_not_store_is_refused(
    salted: bytes, salt: bytes, iterations: int, sentence: str
) -> None:
    with pytest.raises(ValueError, match=f"{sentence}$"):
        credential_of(SHA_256, salted, salt, iterations)


def test_no_repr_shows_a_key_or_a_salt() -> None:
    assert repr(USERS[USER]) == "ScramCredential(iterations=4096)"
    assert repr(DECOYS) == "Decoys(iterations=4096)"
