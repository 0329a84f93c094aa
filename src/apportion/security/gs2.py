"""The header with which the client's first message of a GS2 mechanism begins (RFC 5801).

SCRAM and OAUTHBEARER are such mechanisms. The header says whether the client binds the exchange to
the TLS channel, which nobody does in Kafka, and as whom it wants to act, which must be itself.
"""

import re
from typing import NamedTuple

from apportion.security.exchange import UnacceptableBytes


class Gs2Header(NamedTuple):
    """The header as it came, its authorization identity ("" for none), and what follows it."""

    text: str
    authorization: str
    rest: str


def parsed_header(message: str) -> Gs2Header:
    """Split the client's first message of a GS2 mechanism. Errors: UnacceptableBytes."""
    flag, _, after_flag = message.partition(",")
    identity, comma, rest = after_flag.partition(",")
    if flag.startswith("p="):
        raise UnacceptableBytes("the client wants to bind the exchange to its TLS channel")
    # "y" is a client that could bind its channel, and thinks that the server cannot.
    if flag not in ("n", "y") or not comma:
        raise UnacceptableBytes("the client's first message has no GS2 header")
    if identity and not identity.startswith("a="):
        raise UnacceptableBytes("the client's GS2 header has something else than an identity")
    return Gs2Header(f"{flag},{identity},", unescaped_name(identity[2:]), rest)


def escaped_name(name: str) -> str:
    """Return the name of a user as it stands in messages of GS2 mechanisms (RFC 5802)."""
    return name.replace("=", "=3D").replace(",", "=2C")


def unescaped_name(name: str) -> str:
    """Return the name of a user from a message of a GS2 mechanism. Errors: UnacceptableBytes."""
    if re.search("=(?!2C|3D)", name):
        raise UnacceptableBytes("a name in the client's first message is wrongly escaped")
    return name.replace("=2C", ",").replace("=3D", "=")
