"""The principal of a client certificate: its name as Java prints it, and the rules that map it.

The name of a certificate's subject is that of RFC 2253 in the form of Java, whose Kafka has it in
ACLs: the last part first, and the keywords of that RFC alone. `ssl.principal.mapping.rules` makes
shorter names of it.
"""

import re
from dataclasses import dataclass

from apportion.security.der import CUT_OFF, ISSUER, SUBJECT, DerElement, elements, fields_of

STRINGS = {  # tags of DER -> the encoding of such a string
    0x0C: "utf-8",
    0x13: "latin-1",
    0x14: "latin-1",
    0x16: "latin-1",
    0x1B: "latin-1",
    0x1E: "utf-16-be",
}
KEYWORDS = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
MAX_SHOWN = 200
"""How much of a certificate's name stands in an error or a log line."""
ESCAPED = frozenset(',=+<>#;"\\')
BLANKS = " \r"
RULE = re.compile(r"\s*(?:(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?))\s*(?:,|$)")
REFERENCE = re.compile(r"\\(.)|\$(\d+)", re.DOTALL)


def distinguished_name(certificate: bytes) -> str:
    """Return the name of a certificate's subject, in the form of RFC 2253 that Java prints.

    certificate: in DER. Errors: ValueError for other bytes.
    """
    return _name(certificate, SUBJECT)


def issuer_name(certificate: bytes) -> str:
    """Return the name of a certificate's issuer, as `distinguished_name` does that of its subject.

    Errors: ValueError.
    """
    return _name(certificate, ISSUER)


def _name(certificate: bytes, field: int) -> str:
    try:
        parts = [
            "+".join([_attribute(each) for each in elements(part.content)])
            for part in elements(fields_of(certificate)[field].content)
        ]
    except IndexError:
        raise ValueError(CUT_OFF) from None
    return ",".join(reversed(parts))


@dataclass(frozen=True, slots=True)
class PrincipalRule:
    """One of `ssl.principal.mapping.rules`.

    pattern: None for DEFAULT, which leaves every name as it is. replacement: for `re`. case: L or U
    for lower or upper case.
    """

    pattern: re.Pattern[str] | None = None
    replacement: str = ""
    case: str = ""

    def name_or_none(self, name: str) -> str | None:
        """Return the principal's name; None if the rule does not fit."""
        if self.pattern is None:
            return name
        if not self.pattern.fullmatch(name):
            return None
        mapped = self.pattern.sub(self.replacement, name)
        return {"L": mapped.lower(), "U": mapped.upper()}.get(self.case, mapped)


@dataclass(frozen=True, slots=True)
class PrincipalRules:
    """The rules of a listener, in their order."""

    rules: tuple[PrincipalRule, ...] = (PrincipalRule(),)

    def name_or_none(self, name: str) -> str | None:
        """Return the principal's name by the first rule that fits; None if none does."""
        for rule in self.rules:
            if (mapped := rule.name_or_none(name)) is not None:
                return mapped
        return None


def principal_rules(text: str) -> PrincipalRules:
    """Return the rules of `ssl.principal.mapping.rules`.

    Errors: ValueError in words that follow the name of the setting.
    """
    rules, at = [], 0
    while at < len(text.rstrip()):
        found = RULE.match(text, at)
        if found is None:
            raise ValueError(
                "must be rules with commas between, each DEFAULT or RULE:pattern/replacement/ "
                f"with L or U at its end, not {text[at:]!r}"
            )
        default, pattern, replacement, case = found.groups()
        rules.append(PrincipalRule() if default else _rule(pattern, replacement, case))
        at = found.end()
    if not rules:
        raise ValueError("must have a rule, such as DEFAULT")
    return PrincipalRules(tuple(rules))


def _rule(pattern: str, replacement: str, case: str) -> PrincipalRule:
    """Return one rule. Errors: ValueError."""
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise ValueError(f"has the pattern {pattern!r}, which is wrong: {error}") from None

    def reference(found: re.Match[str]) -> str:
        """Return a part of Java's replacement as `re` writes it."""
        literal, digits = found.groups()
        if literal is not None:
            return literal.replace("\\", r"\\")
        # As in Java, the longest number of a group that there is; the rest is text.
        for length in range(len(digits), 0, -1):
            if int(digits[:length]) <= compiled.groups:
                return rf"\g<{int(digits[:length])}>{digits[length:]}"
        return found.group()

    return PrincipalRule(compiled, REFERENCE.sub(reference, replacement), case)


def _attribute(element: DerElement) -> str:
    """Return one KEYWORD=value of a name."""
    kind, value = elements(element.content)
    number = _object_id(kind.content)
    keyword = KEYWORDS.get(number)
    if keyword is None or value.tag not in STRINGS:
        return f"{keyword or number}=#{value.encoded.hex()}"
    return f"{keyword}={_escaped(value.content.decode(STRINGS[value.tag], 'replace'))}"


def _object_id(content: bytes) -> str:
    """Return an object identifier in its form with dots."""
    numbers, number = [], 0
    for byte in content:
        number = number << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(number)
            number = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))


def _escaped(text: str) -> str:
    """Return the value of an attribute with backslashes where RFC 2253 wants them."""
    leading = len(text) - len(text.lstrip(BLANKS))
    trailing = len(text.rstrip(BLANKS))
    parts = []
    for at, character in enumerate(text):
        if character == "\0":
            parts.append(r"\00")
        elif character in ESCAPED or at < leading or at >= trailing:
            parts.append("\\" + character)
        else:
            parts.append(character)
    return "".join(parts)
