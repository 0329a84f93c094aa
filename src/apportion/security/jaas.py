"""`sasl.jaas.config`: the login of Kafka's Java clients, as people have it in their jobs.

One login module with its options, in the grammar of Java's JAAS files:

    org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="p";

No error here shows the text, which has a password.
"""

import re
from collections.abc import Mapping
from typing import NamedTuple

from apportion.security import oauthbearer, plain
from apportion.security.names import SCRAM_MECHANISMS

LOGIN_MODULES = {  # a class of Kafka, in its package -> its mechanisms
    "plain.PlainLoginModule": (plain.NAME,),
    "scram.ScramLoginModule": SCRAM_MECHANISMS,
    "oauthbearer.OAuthBearerLoginModule": (oauthbearer.NAME,),
}
PACKAGES = (
    "org.apache.kafka.common.security.",
    "kafkashaded.org.apache.kafka.common.security.",
)
"""Of Kafka, and of Kafka as Databricks has it."""
BARE_NAME = re.compile(r"\w+")
KERBEROS = "Krb5LoginModule"
FLAGS = ("required", "requisite", "sufficient", "optional")
TOKEN = re.compile(r'\s*(?:"((?:[^"\\]|\\.)*)"|\'((?:[^\'\\]|\\.)*)\'|([^\s"\'=;]+)|([=;]))', re.S)


class JaasLogin(NamedTuple):
    """A login module's mechanisms, and its options."""

    mechanisms: tuple[str, ...]
    options: Mapping[str, str]


def parse_jaas(text: str) -> JaasLogin:
    """Return the login of a `sasl.jaas.config`.

    Raises ValueError in words that follow the option's name, without what the text has.
    """
    words = _words(text)
    if len(words) < 3 or words[-1] != (";", True):
        raise ValueError('must be: a login module, required, its options as name="value", and ;')
    module, flag, *rest = words[:-1]
    mechanisms = _mechanisms(module[0])
    if flag[0].lower() not in FLAGS:
        raise ValueError("must have the word required after the login module")
    if (";", True) in rest:
        raise ValueError("must have one login module alone, with one ; at its end")
    options = {}
    for at in range(0, len(rest), 3):
        name, *value = rest[at : at + 3]
        if name[1] or len(value) != 2 or value[0] != ("=", True) or value[1][1]:
            raise ValueError('must have each option of the login module as name="value"')
        options[name[0]] = value[1][0]
    return JaasLogin(mechanisms, options)


def jaas_of(mechanism: str, options: Mapping[str, str]) -> str:
    """Return a login by this mechanism as `sasl.jaas.config`."""
    module = next(name for name, there in LOGIN_MODULES.items() if mechanism in there)
    # Java's clients know names without quotation marks; a user of PLAIN may have any name.
    named = [
        f"{name if BARE_NAME.fullmatch(name) else _quoted(name)}={_quoted(value)}"
        for name, value in options.items()
    ]
    return " ".join((PACKAGES[0] + module, "required", *named)) + ";"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _words(text: str) -> list[tuple[str, bool]]:
    """Return the words of the text, each with whether it is an = or ; of the grammar."""
    words, at = [], 0
    text = text.strip()
    while at < len(text):
        found = TOKEN.match(text, at)
        if found is None:
            raise ValueError("has a quotation mark without its partner")
        double, single, bare, sign = found.groups()
        quoted = double if double is not None else single
        if sign is not None:
            words.append((sign, True))
        else:
            words.append((bare if quoted is None else re.sub(r"\\(.)", r"\1", quoted), False))
        at = found.end()
    return words


def _mechanisms(module: str) -> tuple[str, ...]:
    """Return the mechanisms of a login module. Raises ValueError for one that is not here."""
    for package in PACKAGES:
        mechanisms = LOGIN_MODULES.get(module.removeprefix(package))
        if mechanisms is not None and module.startswith(package):
            return mechanisms
    known = ", ".join(name.rpartition(".")[2] for name in LOGIN_MODULES)
    if module.rpartition(".")[2] == KERBEROS:
        raise ValueError(f"names a login module of Kerberos, which is not here: use {known}")
    # The class name may be a password in the wrong place.
    raise ValueError(f"names a login module that only Java has: use {known} of Kafka")
