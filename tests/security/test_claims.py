"""The claims of tokens, and tokens without a signature."""

import base64
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from apportion.security.claims import unsecured_verdict
from apportion.security.oauthbearer import TokenAccepted, TokenRejected

NOW, ENDS = 1_000, 2_000
CLAIMS = {"sub": "alice", "exp": ENDS}


def unsecured(claims: Any, header: Any = None, signature: str = "") -> str:
    parts = (
        base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=")
        for part in (header or {"alg": "none"}, claims)
    )
    return ".".join((*parts, signature))


def test_a_token_without_a_signature_is_good_for_tests() -> None:
    good = unsecured(CLAIMS)
    assert unsecured_verdict(good, "sub", 0, NOW) == TokenAccepted("alice", 2_000_000)
    assert unsecured_verdict(good, "sub", 0, ENDS) == TokenRejected("the token is over")
    signed_or_not = TokenRejected("the token is signed, or no JSON Web Token: here they are not")
    for token in (
        unsecured(CLAIMS, signature="abc"),
        unsecured(CLAIMS, {"alg": "RS256"}),
        "abc",
    ):
        assert unsecured_verdict(token, "sub", 0, NOW) == signed_or_not


@given(st.text(alphabet="abcdefXYZ0189-._~+/=", max_size=60))
def test_no_text_is_a_token_by_chance(token: str) -> None:
    assert type(unsecured_verdict(token, "sub", 0, NOW)) is TokenRejected
