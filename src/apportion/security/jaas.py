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

MODULES = {  # the last part of a login module's name -> its mechanisms
    "PlainLoginModule": (plain.NAME,),
    "ScramLoginModule": SCRAM_MECHANISMS,
    "OAuthBearerLoginModule": (oauthbearer.NAME,),
}
PACKAGES = (
    "org.apache.kafka.common.security.",
    "kafkashaded.org.apache.kafka.common.security.",
)
"""Of Kafka, and of Kafka as Databricks has it."""
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
    name = module.rpartition(".")[2]
    if name in MODULES and module.startswith(PACKAGES):
        return MODULES[name]
    known = ", ".join(MODULES)
    if name == KERBEROS:
        raise ValueError(f"names a login module of Kerberos, which is not here: use {known}")
    # The class name may be a password in the wrong place.
    raise ValueError(f"names a login module that only Java has: use {known} of Kafka")
