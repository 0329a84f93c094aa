"""`apportion serve --add-scram`: SCRAM users of a broker, in the syntax of kafka-storage.sh.

    SCRAM-SHA-256=[name=alice,password=a-secret]

Beside Kafka's `password` there are `password-file` and `password-env`, because everybody on the
machine may read command lines.
"""

import base64
import os
import re
from pathlib import Path

from apportion.cli.properties import text_of
from apportion.node.bootstrap import UserCredential
from apportion.node.settings import SettingRefused
from apportion.security.exchange import is_sendable
from apportion.security.scram_credentials import (
    MAX_ITERATIONS,
    MIN_ITERATIONS,
    ScramMechanism,
    credential_of,
    salted_password,
)

OPTION = "--add-scram"
WHOLE = re.compile(r"([^=\[\]]+)=\[(.*)\]", re.DOTALL)
PART = re.compile(r'([^=,]*)=(?:"([^"]*)"|([^,]*))(?:,|$)', re.DOTALL)
PASSWORDS = ("password", "password-file", "password-env", "saltedpassword")
KEYS = ("name", *PASSWORDS, "iterations", "salt")
MOST_DIGITS = 9
"""Of iterations: Kafka's bound has five, and Python refuses some thousands with an error."""


def scram_user(text: str) -> UserCredential:
    """Return the credential that one `--add-scram` gives, with a fresh salt unless it has one.

    Errors: SettingRefused, which shows neither a password nor a salt.
    """
    whole = WHOLE.fullmatch(text.strip())
    mechanisms = {mechanism.value: mechanism for mechanism in ScramMechanism}
    if whole is None or whole[1].strip() not in mechanisms:
        raise _refused(
            "must be MECHANISM=[name=NAME,password=PASSWORD], where the mechanism is "
            + " or ".join(mechanisms)
        )
    mechanism, given = mechanisms[whole[1].strip()], _parts(whole[2])
    name = given.get("name", "")
    if not name:
        raise _refused("has no name=NAME")
    _require_sendable("name", name)
    if sum(key in given for key in PASSWORDS) != 1:
        raise _refused(f"needs one of {', '.join(PASSWORDS)} for the user {name!r}")
    iterations = given.get("iterations", str(MIN_ITERATIONS))
    if not iterations.isascii() or not iterations.isdigit() or len(iterations) > MOST_DIGITS:
        raise _refused("has iterations that are no number")
    count = int(iterations)
    if "saltedpassword" in given and "salt" not in given:
        raise _refused("needs the salt of its saltedpassword")
    salt = _decoded("salt", given["salt"]) if "salt" in given else os.urandom(mechanism.hash_bytes)
    salted = (
        _decoded("saltedpassword", given["saltedpassword"])
        if "saltedpassword" in given
        # Bounded before it is computed: it takes the time of so many iterations, at least one.
        else salted_password(
            mechanism, _password(name, given), salt, min(max(count, 1), MAX_ITERATIONS)
        )
    )
    try:
        credential = credential_of(mechanism, salted, salt, count)
    except ValueError as error:
        raise _refused(f"of the user {name!r} is wrong: {error}") from None
    return UserCredential(mechanism, name, credential)


def _parts(text: str) -> dict[str, str]:
    """Return keys and values of what is in the brackets. Errors: SettingRefused."""
    found: dict[str, str] = {}
    end = 0
    while end < len(text):
        part = PART.match(text, end)
        key = part[1].strip() if part else ""
        if part is None or key not in KEYS:
            raise _refused(f"takes KEY=VALUE with commas between, of {', '.join(KEYS)}")
        if key in found:
            raise _refused(f"has {key} twice")
        found[key] = part[3] if part[2] is None else part[2]
        end = part.end()
    return found


def _password(name: str, given: dict[str, str]) -> str:
    """Return the password from where it is. Errors: SettingRefused."""
    if "password" in given:
        password = given["password"]
    elif "password-env" in given:
        variable = given["password-env"]
        if variable not in os.environ:
            raise _refused(
                f"names {variable!r} in password-env of the user {name!r}: there is no such "
                "variable in the environment"
            )
        password = os.environ[variable]
    else:
        try:
            # An editor ends the line.
            password = text_of(Path(given["password-file"])).removesuffix("\n")
        except ValueError as why:
            raise _refused(f"cannot read the password-file of the user {name!r}: {why}") from None
    if not password:
        [key] = (each for each in PASSWORDS if each in given)
        where = "" if key == "password" else f": its {key} is empty"
        raise _refused(f"gives the user {name!r} no password{where}")
    _require_sendable("password", password)
    return password


def _require_sendable(what: str, text: str) -> None:
    """Check a name or a password. Errors: SettingRefused, without it."""
    if not is_sendable(text):
        raise _refused(f"has a {what} with NUL or a lone surrogate in it")


def _decoded(key: str, text: str) -> bytes:
    """Return the bytes that stand in base64. Errors: SettingRefused."""
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        raise _refused(f"has a {key} that is not base64") from None


def _refused(what: str) -> SettingRefused:
    return SettingRefused(f"{OPTION} {what}.")
