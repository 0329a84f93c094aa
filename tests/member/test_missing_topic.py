"""The command that creates a missing topic."""

from apportion.member.missing_topic import create_command, missing_topic_remedy


def test_a_missing_topic_is_created_by_a_command_that_names_its_cluster() -> None:
    assert create_command("flights", "a:9092,b:9092") == (
        "apportion topics create flights --bootstrap a:9092,b:9092"
    )


def test_a_name_that_a_shell_would_take_apart_is_quoted() -> None:
    assert create_command("a;b", "") == "apportion topics create 'a;b'"


def test_a_missing_topic_may_be_misspelt_or_is_to_be_created() -> None:
    assert missing_topic_remedy("flihgts", "b:9092") == (
        "is its name right? `apportion topics create flihgts --bootstrap b:9092` creates it"
    )
