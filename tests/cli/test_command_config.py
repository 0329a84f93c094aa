"""`--command-config FILE`: a command reaches a secured cluster as Kafka's own tools do."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from apportion.cli.command_config import command_security
from apportion.cli.failures import WrongArguments
from apportion.cli.passwords import password_of
from apportion.cli.properties import parse_properties, read_properties
from apportion.security.client_security import PLAINTEXT, ClientSecurity, PasswordLogin, TlsSettings
from apportion.security.key_stores import KeyStore, StoreKind

SECRET = "s3cret"
JAAS = "org.apache.kafka.common.security.scram.ScramLoginModule required"


def config(directory: Path, text: str) -> Path:
    path = directory / "client.properties"
    path.write_text(text)
    return path


def test_a_file_of_kafkas_tools_describes_the_security(tmp_path: Path) -> None:
    path = config(
        tmp_path,
        f"""# of the tools
bootstrap.servers=b:9092
security.protocol = SASL_SSL
sasl.mechanism: SCRAM-SHA-512
sasl.jaas.config={JAAS} \\
    username="alice" \\
    password="{SECRET}";
ssl.truststore.location=/etc/kafka/ca.p12
ssl.truststore.type=PKCS12
""",
    )
    assert command_security(path) == ClientSecurity(
        TlsSettings(KeyStore(StoreKind.PKCS12, "/etc/kafka/ca.p12")),
        PasswordLogin("SCRAM-SHA-512", "alice", SECRET),
    )


def test_without_a_file_connections_are_plain() -> None:
    assert command_security(None) == PLAINTEXT


def test_properties_are_read_as_java_reads_them() -> None:
    text = "a=1\n!no\n  # nor this\nb : 2 \\\r\n  and 3\nc\\=d\te\\u0066\\n\nempty=\n"
    assert parse_properties(text) == {"a": "1", "b": "2 and 3", "c=d": "ef\n", "empty": ""}


def test_a_comment_ends_with_its_line() -> None:
    text = "# from C:\\\na=1\nb=2 \\\n   # no comment\n"
    assert parse_properties(text) == {"a": "1", "b": "2 # no comment"}


def test_a_line_without_characters_ends_no_comment_and_no_value() -> None:
    assert parse_properties("\n \\\na=1\\\n\nb=2\\\\\nc=3\\") == {"a": "1", "b": "2\\", "c": "3"}


def test_a_name_that_is_there_twice_is_refused_with_its_lines() -> None:
    text = "# of us\na=1\nb=2 \\\n  and 3\n\na : 4\n"
    with pytest.raises(ValueError, match=r"^lines 2 and 6 both have a: leave one of them$"):
        parse_properties(text)


def test_a_byte_order_mark_is_no_part_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text("a=1\n", encoding="utf-8-sig")
    assert read_properties(path) == {"a": "1"}
    path.write_text("s3cret\n", encoding="utf-8-sig")
    assert password_of(path) == "s3cret"


def test_a_file_is_utf_8_on_every_machine(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_bytes("ssl.truststore.location=/é.pem".encode())
    ascii_alone = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    program = (
        "from apportion.cli.properties import read_properties; from pathlib import Path; "
        f"print(ascii(read_properties(Path({str(path)!r}))))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, **ascii_alone},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout == "{'ssl.truststore.location': '/\\xe9.pem'}\n"


def test_a_file_in_another_encoding_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_bytes("ssl.truststore.location=/é.pem".encode("latin-1"))
    with pytest.raises(WrongArguments) as refused:
        command_security(path)
    assert str(refused.value) == (
        f"--command-config '{path}' cannot be read: it is no text in UTF-8"
    )


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("security.protocol=TLS", "security.protocol must be one of PLAINTEXT, SSL, SASL_PL"),
        ("security.protokol=SSL", "security.protokol is not known: did you mean security.prot"),
        ("securty.protocol=SSL", "securty.protocol is not known: did you mean security.protocol?"),
        *(
            (f"{theirs}=x", f"{theirs} is not known: did you mean {kafkas}?")
            for theirs, kafkas in (
                ("ssl.ca.location", "ssl.truststore.location"),
                ("ssl_ca_location", "ssl.truststore.location"),
                ("ssl.certificate.location", "ssl.keystore.location"),
                ("sasl.password", "sasl.jaas.config"),
                ("security_protocol", "security.protocol"),
            )
        ),
        (
            "security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\n"
            f'sasl.jaas.config={JAAS} a="{SECRET}"',
            "sasl.jaas.config must be: a login module, required, its options",
        ),
    ],
)
def test_a_wrong_file_is_refused_without_its_secrets(tmp_path: Path, text: str, why: str) -> None:
    path = config(tmp_path, text)
    with pytest.raises(WrongArguments) as refused:
        command_security(path)
    assert str(refused.value).startswith(f"--command-config '{path}': {why}")
    assert SECRET not in str(refused.value)
