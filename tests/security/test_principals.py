"""The name of a client certificate is as Java prints it, and Kafka's rules map it.

The expected names are those that Java 17 printed for these certificates.
"""

from datetime import UTC, datetime

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from apportion.security.principals import distinguished_name, principal_rules

KEY = ec.generate_private_key(ec.SECP256R1())
Part = tuple[tuple[x509.ObjectIdentifier, str], ...]


def certificate(*parts: Part) -> bytes:
    """A certificate in DER; each part of the subject's name has one attribute or several."""
    name = x509.Name(
        [
            x509.RelativeDistinguishedName([x509.NameAttribute(kind, text) for kind, text in part])
            for part in parts
        ]
    )
    issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "CA")])
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(issuer)
    builder = builder.public_key(KEY.public_key()).serial_number(300)
    builder = builder.not_valid_before(datetime(2020, 1, 1, tzinfo=UTC))
    builder = builder.not_valid_after(datetime(2040, 1, 1, tzinfo=UTC))
    return builder.sign(KEY, hashes.SHA256()).public_bytes(Encoding.DER)


def one(kind: x509.ObjectIdentifier, text: str) -> Part:
    return ((kind, text),)


@pytest.mark.parametrize(
    ("parts", "name"),
    [
        (
            [
                one(NameOID.COUNTRY_NAME, "DE"),
                one(NameOID.STATE_OR_PROVINCE_NAME, "Hessen"),
                one(NameOID.LOCALITY_NAME, "F"),
                one(NameOID.ORGANIZATION_NAME, "Org, Inc."),
                one(NameOID.ORGANIZATIONAL_UNIT_NAME, "U1"),
                one(NameOID.ORGANIZATIONAL_UNIT_NAME, "U2"),
                one(NameOID.COMMON_NAME, "alice"),
            ],
            r"CN=alice,OU=U2,OU=U1,O=Org\, Inc.,L=F,ST=Hessen,C=DE",
        ),
        (
            [one(NameOID.COMMON_NAME, ' a=b#c+d<e>f;g"h\\i  ')],
            r"CN=\ a\=b\#c\+d\<e\>f\;g\"h\\i\ \ ",
        ),
        (
            [
                one(NameOID.COMMON_NAME, "#x"),
                one(NameOID.EMAIL_ADDRESS, "a@b.c"),
                one(NameOID.USER_ID, "u1"),
                one(NameOID.DOMAIN_COMPONENT, "example"),
                one(NameOID.STREET_ADDRESS, "s 1"),
                one(NameOID.SERIAL_NUMBER, "42"),
                one(NameOID.TITLE, "Dr"),
            ],
            r"2.5.4.12=#0c024472,2.5.4.5=#13023432,STREET=s 1,DC=example,UID=u1,"
            r"1.2.840.113549.1.9.1=#16056140622e63,CN=\#x",
        ),
        (
            [((NameOID.COMMON_NAME, "multi"), (NameOID.ORGANIZATION_NAME, "o"))],
            "O=o+CN=multi",
        ),
        ([one(NameOID.COMMON_NAME, "Zoë ☃ é")], "CN=Zoë ☃ é"),
        ([one(NameOID.COMMON_NAME, "a\0b")], r"CN=a\00b"),
        ([], ""),
    ],
)
def test_the_name_of_a_certificate_is_as_java_prints_it(parts: list[Part], name: str) -> None:
    assert distinguished_name(certificate(*parts)) == name


def test_bytes_that_are_cut_off_are_a_value_error() -> None:
    whole = certificate(one(NameOID.COMMON_NAME, "alice"))
    for length in range(len(whole)):
        with pytest.raises(ValueError):
            distinguished_name(whole[:length])


USER_RULE = r"RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/"
MANY = (
    USER_RULE + r", RULE:^CN=(.*?),O=([^,]*)$/$1@$2/L,RULE:^.*[Uu]id=(\w+).*$/$1/U,"
    r"RULE:^C=(.)\/(.)$/\$\/$12$3/"
)


@pytest.mark.parametrize(
    ("rules", "name", "mapped"),
    [
        ("DEFAULT", "CN=alice,O=x", "CN=alice,O=x"),
        (USER_RULE, "CN=alice,OU=ServiceUsers,O=x", "alice"),
        (USER_RULE, "CN=alice,OU=Others", None),
        (f"{USER_RULE},DEFAULT", "CN=alice,OU=Others", "CN=alice,OU=Others"),
        (MANY, "CN=Alice,O=Example", "alice@example"),
        (MANY, "O=Example,uid=bob,L=here", "BOB"),
        # A number is the longest that is a group's, as in Java; others are text.
        (MANY, "C=a/b", "$/a2$3"),
        ("RULE:.*CN=bob.*/robert/", "CN=bobby", "robert"),
        ("RULE:bob/robert/", "CN=bob", None),
    ],
)
def test_the_first_rule_that_fits_the_whole_name_maps_it(
    rules: str, name: str, mapped: str | None
) -> None:
    assert principal_rules(rules).name_or_none(name) == mapped


@pytest.mark.parametrize(
    ("rules", "why"),
    [
        ("", "must have a rule, such as DEFAULT"),
        (
            "DEFAULT,RULE:a/b",
            "must be rules with commas between, each DEFAULT or RULE:pattern/replacement/ with L "
            "or U at its end, not 'RULE:a/b'",
        ),
        (
            "RULE:[/x/",
            "has the pattern '[', which is wrong: unterminated character set at position 0",
        ),
    ],
)
def test_a_wrong_rule_is_refused_in_words_after_the_settings_name(rules: str, why: str) -> None:
    with pytest.raises(ValueError) as refused:
        principal_rules(rules)
    assert str(refused.value) == why
