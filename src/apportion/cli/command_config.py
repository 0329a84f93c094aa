"""`--command-config FILE`: the TLS and SASL of a cluster, as Kafka's own tools take them.

The file is one of Java's properties: NAME=VALUE in a line, which goes on after a backslash at its
end. Options of other matters, such as client.id, are left alone.
"""

import re
from pathlib import Path

from apportion.cli.failures import WrongArguments
from apportion.client.kafka_security import FIELDS, PREFIXES, kafka_security
from apportion.security.client_security import PLAINTEXT, ClientSecurity
from apportion.settings import nearest_or_none

PAIR = re.compile(r"((?:\\.|[^\s=:\\])+)\s*[=:\s]?\s*(.*)", re.DOTALL)
ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "f": "\f"}


def command_security(path: Path | None) -> ClientSecurity:
    """Return the security of a cluster from a file; plain connections if there is none.

    Raises WrongArguments, without any secret.
    """
    if path is None:
        return PLAINTEXT
    try:
        properties = parse_properties(path.read_text())
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is no text"
        raise WrongArguments(f"--command-config {str(path)!r} cannot be read: {why}") from None
    for name in properties:
        near = nearest_or_none(name, FIELDS)
        # A misspelt name must not end in a plain connection.
        if near is not None and not name.startswith(PREFIXES):
            raise WrongArguments(
                f"--command-config {str(path)!r}: {name} is not known: did you mean {near}?"
            )
    try:
        return kafka_security(properties)
    except ValueError as error:
        raise WrongArguments(f"--command-config {str(path)!r}: {error}") from None


def parse_properties(text: str) -> dict[str, str]:
    """Return the names and values of a file of Java's properties."""
    found = {}
    joined = re.sub(r"(?<!\\)((?:\\\\)*)\\\r?\n[ \t]*", r"\1", text)
    for line in joined.splitlines():
        matched = PAIR.fullmatch(line.strip())
        if matched is not None and not line.lstrip().startswith(("#", "!")):
            found[_unescaped(matched[1])] = _unescaped(matched[2])
    return found


def _unescaped(text: str) -> str:
    def character(escape: re.Match[str]) -> str:
        if escape[1] is not None:
            return chr(int(escape[1], 16))
        return ESCAPES.get(escape[2], escape[2])

    return re.sub(r"\\(?:u([0-9a-fA-F]{4})|(.))", character, text)
