"""`--add-scram`: users as kafka-storage.sh takes them, with passwords from where nobody looks."""

import base64
import os
import subprocess
import sys
from pathlib import Path

import pytest

from apportion.cli.scram_option import scram_user
from apportion.node.settings import SettingRefused
from apportion.security.scram_credentials import (
    Decoys,
    ScramMechanism,
    credential_of,
    salted_password,
)

SECRET = "a-secret"
SHA_256, SHA_512 = ScramMechanism
SALT = base64.b64encode(b"a salt").decode()


def credential(mechanism: ScramMechanism, password: str, iterations: int = 4_096) -> object:
    salted = salted_password(mechanism, password, b"a salt", iterations)
    return credential_of(mechanism, salted, b"a salt", iterations)


def test_a_user_has_the_password_and_a_salt_of_his_own() -> None:
    text = f"SCRAM-SHA-256=[name=alice,password={SECRET}]"
    first, second = scram_user(text), scram_user(text)
    assert (first.mechanism, first.user) == (SHA_256, "alice")
    salted = salted_password(SHA_256, SECRET, first.credential.salt, 4_096)
    assert first.credential == credential_of(SHA_256, salted, first.credential.salt, 4_096)
    assert first.credential.salt != second.credential.salt


@pytest.mark.parametrize("mechanism", ScramMechanism)
def test_a_salt_is_as_long_as_that_of_a_user_who_does_not_exist(mechanism: ScramMechanism) -> None:
    user = scram_user(f"{mechanism.value}=[name=alice,password={SECRET}]")
    decoy = Decoys(b"key").credential(mechanism, "nobody")
    assert len(user.credential.salt) == len(decoy.salt)


def test_a_user_has_iterations_salt_and_quotes_as_in_kafka() -> None:
    text = f'SCRAM-SHA-512=[name="alice",iterations=8192,salt="{SALT}",password="a,b=c]"]'
    assert scram_user(text) == (SHA_512, "alice", credential(SHA_512, "a,b=c]", 8_192))
    salted = base64.b64encode(salted_password(SHA_512, SECRET, b"a salt", 4_096)).decode()
    text = f"SCRAM-SHA-512=[name=alice,salt={SALT},saltedpassword={salted}]"
    assert scram_user(text) == (SHA_512, "alice", credential(SHA_512, SECRET))


def test_a_password_comes_from_a_file_or_a_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "password"
    path.write_text(SECRET + "\n")
    monkeypatch.setenv("PASSWORD_OF_ALICE", SECRET)
    for source in (f"password-file={path}", "password-env=PASSWORD_OF_ALICE"):
        text = f"SCRAM-SHA-256=[name=alice,{source},salt={SALT}]"
        assert scram_user(text) == (SHA_256, "alice", credential(SHA_256, SECRET))


def test_a_password_file_is_utf_8_on_every_machine(tmp_path: Path) -> None:
    path = tmp_path / "password"
    path.write_bytes("é\n".encode())
    text = f"SCRAM-SHA-256=[name=alice,password-file={path},salt={SALT}]"
    program = (
        "from apportion.cli.scram_option import scram_user; "
        f"print(scram_user({text!r}).credential.stored_key)"
    )
    ascii_alone = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    ran = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, **ascii_alone},
        capture_output=True,
        text=True,
        check=True,
    )
    user = scram_user(f"SCRAM-SHA-256=[name=alice,password=é,salt={SALT}]")
    assert ran.stdout == f"{user.credential.stored_key!r}\n"


FORM = (
    "must be MECHANISM=[name=NAME,password=PASSWORD], where the mechanism is SCRAM-SHA-256 or "
    "SCRAM-SHA-512."
)
KEYS = (
    "takes KEY=VALUE with commas between, of name, password, password-file, password-env, "
    "saltedpassword, iterations, salt."
)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (f"name=alice,password={SECRET}", FORM),
        (f"SCRAM-MD5=[name=alice,password={SECRET}]", FORM),
        (f"SCRAM-SHA-256=[password={SECRET}]", "has no name=NAME."),
        (f"SCRAM-SHA-256=[name=alice,secret={SECRET}]", KEYS),
        (f"SCRAM-SHA-256=[name=alice,{SECRET}]", KEYS),
        (f"SCRAM-SHA-256=[name=alice,name=bob,password={SECRET}]", "has name twice."),
        (
            f"SCRAM-SHA-256=[name=alice,password={SECRET},password-env=X]",
            "needs one of password, password-file, password-env, saltedpassword for the user "
            "'alice'.",
        ),
        ("SCRAM-SHA-256=[name=alice,password=]", "gives the user 'alice' no password."),
        (
            "SCRAM-SHA-256=[name=alice,password-env=NONE_]",
            "names 'NONE_' in password-env of the user 'alice': there is no such variable in the "
            "environment.",
        ),
        (
            "SCRAM-SHA-256=[name=alice,password-file=/dev/null]",
            "gives the user 'alice' no password: its password-file is empty.",
        ),
        (
            "SCRAM-SHA-256=[name=alice,password-file=/nowhere]",
            "cannot read the password-file of the user 'alice': No such file or directory.",
        ),
        (
            f"SCRAM-SHA-256=[name=alice,password={SECRET},iterations=99999999]",
            "of the user 'alice' is wrong: a SCRAM credential has from 4096 to 16384 iterations, "
            "not 99999999.",
        ),
        (
            f"SCRAM-SHA-256=[name=alice,password={SECRET},iterations=many]",
            "has iterations that are no number.",
        ),
        (
            f"SCRAM-SHA-256=[name=alice,password={SECRET},iterations={'9' * 5_000}]",
            "has iterations that are no number.",
        ),
        (
            f"SCRAM-SHA-256=[name=alice,password={SECRET},iterations=0]",
            "of the user 'alice' is wrong: a SCRAM credential has from 4096 to 16384 iterations, "
            "not 0.",
        ),
        (
            f"SCRAM-SHA-256=[name=alice\udcff,password={SECRET}]",
            "has a name with NUL or a lone surrogate in it.",
        ),
        (
            f"SCRAM-SHA-256=[name=alice,password={SECRET}\udcff]",
            "has a password with NUL or a lone surrogate in it.",
        ),
        (
            f"SCRAM-SHA-256=[name=alice,password={SECRET},salt=???]",
            "has a salt that is not base64.",
        ),
        (
            f"SCRAM-SHA-256=[name=alice,password={SECRET},salt=é]",
            "has a salt that is not base64.",
        ),
        (
            f"SCRAM-SHA-256=[name=alice,saltedpassword={SECRET}]",
            "needs the salt of its saltedpassword.",
        ),
    ],
)
def test_a_wrong_user_is_refused_without_the_secret(text: str, sentence: str) -> None:
    with pytest.raises(SettingRefused) as refused:
        scram_user(text)
    assert str(refused.value) == f"--add-scram {sentence}"
    assert SECRET not in str(refused.value)
