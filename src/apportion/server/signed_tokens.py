"""Throw-away tokens of OAUTHBEARER for tests: a key that is made for them, and what it signs.

Nobody may trust such a key but the broker that it was made for. It needs PyJWT and `cryptography`,
of the extra `security`.
"""

import json
from collections.abc import Mapping
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm

ALGORITHM, KEY_ID = "ES256", "throw-away"


class SignedTokens:
    """The issuer of tokens that one broker lets in."""

    __slots__ = ("_key",)

    def __init__(self) -> None:
        """Make the key."""
        self._key = ec.generate_private_key(ec.SECP256R1())

    def key_set(self) -> str:
        """Return the public key, by which a broker looks at the tokens, as a JSON Web Key Set."""
        row = json.loads(ECAlgorithm.to_jwk(self._key.public_key()))
        return json.dumps({"keys": [row | {"kid": KEY_ID, "alg": ALGORITHM, "use": "sig"}]})

    def token(self, claims: Mapping[str, Any]) -> str:
        """Return a token that says this."""
        return jwt.encode(dict(claims), self._key, ALGORITHM, {"kid": KEY_ID})
