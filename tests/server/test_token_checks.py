"""The checks of OAUTHBEARER's tokens: by keys, by a function, and of tokens without a signature."""

import asyncio
import base64
import functools
import http.server
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from apportion.node.sasl_settings import JwtRules, TokenCheckFunction
from apportion.node.settings import SettingRefused
from apportion.security.oauthbearer import (
    TokenAccepted,
    TokenCheck,
    TokenRejected,
    TokenVerdict,
)
from apportion.server import jwt_checks
from apportion.server.token_checks import checker_of
from tests.server.planted import plant

NOW = int(time.time())
ENDS = NOW + 3_600
CLAIMS = {"sub": "alice", "iat": NOW - 60, "exp": ENDS, "aud": "kafka", "iss": "us"}
ACCEPTED = TokenAccepted("alice", ENDS * 1000)


@functools.cache
def rsa_key() -> Any:
    return rsa.generate_private_key(65_537, 2048)


@functools.cache
def ec_key() -> Any:
    return ec.generate_private_key(ec.SECP256R1())


def public(key: Any, **fields: Any) -> dict[str, Any]:
    """The public key as a row of a key set."""
    kind: Any = jwt.algorithms.RSAAlgorithm
    if isinstance(key, ec.EllipticCurvePrivateKey):
        kind = jwt.algorithms.ECAlgorithm
    row: dict[str, Any] = json.loads(kind.to_jwk(key.public_key()))
    return {name: value for name, value in row.items() if name != "key_ops"} | fields


def key_file(directory: Path, *rows: Any) -> str:
    path = directory / "keys.json"
    path.write_text(json.dumps({"keys": rows}))
    return path.as_uri()


def signed(key: Any, algorithm: str = "RS256", key_id: str | None = "k1", **claims: Any) -> str:
    """A token with these claims; None leaves one out."""
    said = {name: value for name, value in (CLAIMS | claims).items() if value is not None}
    return jwt.encode(said, key, algorithm, {"kid": key_id} if key_id else {})


def verdict(token: str, **rules: Any) -> TokenVerdict:
    return checker_of(JwtRules(**rules))(TokenCheck(token, {}))


@pytest.fixture
def keys(tmp_path: Path) -> str:
    return key_file(tmp_path, public(rsa_key(), kid="k1"), public(ec_key(), kid="k2", use="sig"))


def test_a_token_of_a_known_key_is_its_users(keys: str) -> None:
    assert verdict(signed(rsa_key()), keys_url=keys) == ACCEPTED
    assert verdict(signed(rsa_key(), "PS256"), keys_url=keys) == ACCEPTED
    assert verdict(signed(ec_key(), "ES256", "k2"), keys_url=keys) == ACCEPTED


def test_a_token_of_the_right_issuer_for_the_right_audience_is_good(keys: str) -> None:
    rules: dict[str, Any] = {"keys_url": keys, "audiences": ("a", "kafka"), "issuer": "us"}
    assert verdict(signed(rsa_key()), **rules) == ACCEPTED
    assert verdict(signed(rsa_key(), aud=["x", "a"]), **rules) == ACCEPTED
    other = verdict(signed(rsa_key(), aud="x"), **rules)
    assert other == TokenRejected("the token is not for this audience")
    other = verdict(signed(rsa_key(), iss="them"), **rules)
    assert other == TokenRejected("the token is of another issuer")


def test_a_user_may_stand_in_another_claim(keys: str) -> None:
    token = signed(rsa_key(), sub=None, client="bob")
    rules = {"keys_url": keys, "name_claim": "client"}
    assert verdict(token, **rules) == TokenAccepted("bob", ENDS * 1000)
    assert verdict(token, keys_url=keys) == TokenRejected(
        "the token has no user in the claim 'sub'"
    )


@pytest.mark.parametrize(
    ("claims", "why"),
    [
        ({"exp": NOW - 31}, "the token is over"),
        ({"exp": None}, "the token lacks a claim: exp, iat, aud or iss"),
        ({"iat": None}, "the token lacks a claim: exp, iat, aud or iss"),
        ({"exp": "soon"}, "the token does not say when it ends (exp)"),
        ({"exp": 1e300}, "the token does not say when it ends (exp)"),
        ({"nbf": NOW + 3_600}, "the token is not valid yet"),
        ({"iat": NOW + 3_600}, "the token is not valid yet"),
        ({"nbf": []}, "the token has a time that is no number (iat, nbf)"),
        ({"sub": ""}, "the token has no user in the claim 'sub'"),
        ({"sub": 5}, "the token has no user in the claim 'sub'"),
        ({"scope": {"a": 1}}, "the token has no scopes in the claim 'scope'"),
    ],
)
def test_a_token_that_says_something_wrong_is_refused(
    keys: str, claims: dict[str, Any], why: str
) -> None:
    # Encoded by hand: the library refuses to make some of these.
    head = base64.urlsafe_b64encode(b'{"alg":"RS256","kid":"k1"}').rstrip(b"=")
    said = {name: value for name, value in (CLAIMS | claims).items() if value is not None}
    body = base64.urlsafe_b64encode(json.dumps(said).encode()).rstrip(b"=")
    signature = jwt.algorithms.RSAAlgorithm(jwt.algorithms.RSAAlgorithm.SHA256).sign(
        head + b"." + body, rsa_key()
    )
    token = b".".join((head, body, base64.urlsafe_b64encode(signature).rstrip(b"=")))
    assert verdict(token.decode(), keys_url=keys) == TokenRejected(why)


def test_clocks_may_differ_a_little(keys: str) -> None:
    over = int(time.time()) - 5  # of this moment: the skew that is allowed is half a minute
    assert verdict(signed(rsa_key(), exp=over), keys_url=keys) == TokenAccepted(
        "alice", over * 1000
    )
    late = verdict(signed(rsa_key(), exp=over), keys_url=keys, skew_s=0)
    assert late == TokenRejected("the token is over")


def test_a_signature_that_is_not_the_issuers_is_refused(keys: str) -> None:
    forged = signed(rsa.generate_private_key(65_537, 2048))
    wrong = TokenRejected("the token's signature is not that of its key")
    assert verdict(forged, keys_url=keys) == wrong
    head, _, signature = signed(rsa_key()).split(".")
    other_body = signed(rsa_key(), sub="root").split(".")[1]
    assert verdict(f"{head}.{other_body}.{signature}", keys_url=keys) == wrong


def test_a_token_without_a_signature_or_by_a_shared_secret_is_refused(keys: str) -> None:
    kind = TokenRejected("the token has a signature of a kind that is not accepted")
    unsigned = jwt.encode(CLAIMS, None, "none", {"kid": "k1"})  # type: ignore[arg-type]
    assert verdict(unsigned, keys_url=keys) == kind
    # The public key is known to everybody, so a MAC by it shows nothing.
    shared = jwt.encode(CLAIMS, "a public key, said to be a secret", "HS256", {"kid": "k1"})
    assert verdict(shared, keys_url=keys) == kind


def test_a_key_signs_as_its_set_says(tmp_path: Path) -> None:
    url = key_file(tmp_path, public(rsa_key(), kid="k1", alg="RS256"))
    assert verdict(signed(rsa_key()), keys_url=url) == ACCEPTED
    assert verdict(signed(rsa_key(), "RS512"), keys_url=url) == TokenRejected(
        "the token has a signature of a kind that is not accepted"
    )


def test_a_token_that_names_no_key_is_of_the_only_one(tmp_path: Path, keys: str) -> None:
    unknown = TokenRejected("the token is signed by a key that its issuer does not have")
    assert verdict(signed(rsa_key(), key_id=None), keys_url=keys) == unknown
    assert verdict(signed(rsa_key(), key_id="k9"), keys_url=keys) == unknown
    url = key_file(tmp_path, public(rsa_key(), kid="k1"))
    assert verdict(signed(rsa_key(), key_id=None), keys_url=url) == ACCEPTED


def test_a_set_may_have_keys_for_others(tmp_path: Path) -> None:
    url = key_file(
        tmp_path,
        {"kty": "oct", "k": "c2VjcmV0", "kid": "k0"},
        {"kty": "EC", "crv": "of tomorrow", "kid": "k3"},
        {"kty": "RSA", "kid": [], "alg": []},
        "no key",
        public(ec_key(), kid="k2", use="enc"),
        public(rsa_key(), kid="k1"),
    )
    assert verdict(signed(rsa_key()), keys_url=url) == ACCEPTED


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (None, "gives no keys: No such file or directory"),
        ("no JSON", "gives no JSON Web Key Set"),
        ("[" * 100_000, "gives no JSON Web Key Set"),
        ('{"keys": 5}', "gives no JSON Web Key Set"),
        ('{"keys": []}', "has no public key that is known here"),
    ],
)
def test_a_file_without_keys_is_told_at_the_start(
    tmp_path: Path, text: str | None, why: str
) -> None:
    path = tmp_path / "keys.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(SettingRefused) as refused:
        checker_of(JwtRules(path.as_uri()))
    assert str(refused.value) == f"sasl.oauthbearer.jwks.endpoint.url: {path.as_uri()} {why}."


class Issuer(http.server.BaseHTTPRequestHandler):
    """A server of keys: what it answers, and how often it was asked."""

    answer = (200, b"")
    asked = 0

    def do_GET(self) -> None:
        type(self).asked += 1
        status, body = type(self).answer
        self.send_response(status)
        if status == 302:
            self.send_header("Location", body.decode())
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_arguments: Any) -> None:
        pass


@contextmanager
def issuer() -> Iterator[tuple[str, type[Issuer]]]:
    handler = type("OneIssuer", (Issuer,), {})
    with http.server.HTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/keys?secret=s", handler
        finally:
            server.shutdown()
            thread.join()


def test_keys_are_fetched_once_and_for_a_new_one_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jwt_checks, "BETWEEN_FETCHES_S", 0.0)
    with issuer() as (url, server):
        server.answer = (200, json.dumps({"keys": [public(rsa_key(), kid="k1")]}).encode())
        check = checker_of(JwtRules(url))
        for _ in range(3):
            assert check(TokenCheck(signed(rsa_key()), {})) == ACCEPTED
        assert server.asked == 1
        both = [public(rsa_key(), kid="k1"), public(ec_key(), kid="k2")]
        server.answer = (200, json.dumps({"keys": both}).encode())
        assert check(TokenCheck(signed(ec_key(), "ES256", "k2"), {})) == ACCEPTED
        assert server.asked == 2


def test_unknown_keys_do_not_make_the_broker_ask_each_time() -> None:
    with issuer() as (url, server):
        server.answer = (200, json.dumps({"keys": [public(rsa_key(), kid="k1")]}).encode())
        check = checker_of(JwtRules(url))
        for number in range(5):
            check(TokenCheck(signed(rsa_key(), key_id=f"x{number}"), {}))
        assert server.asked == 1


def test_an_issuer_that_is_away_keeps_its_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jwt_checks, "BETWEEN_FETCHES_S", 0.0)
    with issuer() as (url, server):
        server.answer = (200, json.dumps({"keys": [public(rsa_key(), kid="k1")]}).encode())
        check = checker_of(JwtRules(url, refresh_ms=0))
        assert check(TokenCheck(signed(rsa_key()), {})) == ACCEPTED
        server.answer = (503, b"")
        assert check(TokenCheck(signed(rsa_key()), {})) == ACCEPTED
        assert server.asked == 2
        address = url.partition("?")[0]
        assert check(TokenCheck(signed(rsa_key(), key_id="x"), {})) == TokenRejected(
            f"{address} gives no keys: HTTP status 503"
        )


def test_an_issuer_without_keys_is_named_until_it_is_asked_again() -> None:
    with issuer() as (url, server):
        server.answer = (503, b"")
        check = checker_of(JwtRules(url))
        why = f"{url.partition('?')[0]} gives no keys: HTTP status 503"
        for _ in range(3):
            assert check(TokenCheck(signed(rsa_key()), {})) == TokenRejected(why)
        assert server.asked == 1


def test_keys_come_from_the_server_that_was_named_alone(keys: str) -> None:
    with issuer() as (url, server):
        server.answer = (302, keys.encode())
        address = url.partition("?")[0]
        assert verdict(signed(rsa_key()), keys_url=url) == TokenRejected(
            f"{address} gives no keys: HTTP status 302"
        )


def test_a_function_looks_at_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    found: Any = ("alice", 5.5)

    def look(token: str) -> Any:
        if token == "bad":
            raise ValueError(token)
        return found

    name = plant(monkeypatch, look)
    check = checker_of(TokenCheckFunction(name))
    assert check(TokenCheck("good", {})) == TokenAccepted("alice", 5_500)
    assert check(TokenCheck("bad", {})) == TokenRejected(f"the function {name} raised ValueError")
    found = None
    assert check(TokenCheck("good", {})) == TokenRejected(
        f"the function {name} does not accept the token"
    )
    found = True
    assert check(TokenCheck("good", {})) == TokenRejected(
        f"the function {name} must return the user and the second since 1970 when the token "
        "ends, or None, not a bool"
    )


@pytest.mark.parametrize("raised", [SystemExit, asyncio.CancelledError, KeyboardInterrupt])
def test_a_function_that_would_end_its_thread_rejects_the_token(
    monkeypatch: pytest.MonkeyPatch, raised: type[BaseException]
) -> None:

    def look(_token: str) -> Any:
        raise raised

    name = plant(monkeypatch, look)
    assert checker_of(TokenCheckFunction(name))(TokenCheck("any", {})) == TokenRejected(
        f"the function {name} raised {raised.__name__}"
    )


@pytest.mark.parametrize(
    ("name", "why"),
    [
        (
            "no.such:f",
            "sasl.server.callback.handler.class: no.such:f cannot be loaded: ModuleNotFoundError: "
            "No module named 'no'.",
        ),
        (
            "time:no",
            "sasl.server.callback.handler.class: time:no cannot be loaded: AttributeError: "
            "module 'time' has no attribute 'no'.",
        ),
        (
            "time:tzname",
            "sasl.server.callback.handler.class must name a Python function as module:function, "
            "not 'time:tzname'.",
        ),
        (
            "org.apache.X",
            "sasl.server.callback.handler.class must name a Python function as module:function, "
            "not 'org.apache.X'.",
        ),
    ],
)
def test_a_function_that_is_none_is_told_at_the_start(name: str, why: str) -> None:
    with pytest.raises(SettingRefused) as refused:
        checker_of(TokenCheckFunction(name))
    assert str(refused.value) == why
