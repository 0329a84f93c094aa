import pytest

from apportion.streams.describe.upgrade_blockers import (
    UpgradeBlocker,
    find_upgrade_blocker,
    releases_with_version,
)
from tests.streams.metadata import spoken


def test_nobody_says_nothing() -> None:
    assert find_upgrade_blocker({}) is None


@pytest.mark.parametrize(
    ("versions", "numbers", "holders", "advice"),
    [
        (
            "a 11/11, b 11/11",
            (11, 11, 11),
            "",
            "All speak version 11 and nobody supports more.",
        ),
        (
            "a 2, b 2",
            (2, 2, 2),
            "",
            "All speak version 2, which does not name a newer supported one: once all run a newer "
            "release, bounce them one by one without upgrade.from.",
        ),
        (
            "a 8/11, b 11/11, c 8/11",
            (8, 11, 11),
            "",
            "All support version 11. Processes a and c still speak 8: they step up in a next "
            "rebalance, with no bounce.",
        ),
        (
            "a 2, b 11/11",
            (2, 2, 11),
            "a",
            "Process a speaks version 2, which does not name a newer supported one: it is of Kafka "
            "Streams 0.10.1 to 1.1, or has upgrade.from set; bounce it next, with a newer release "
            "or without upgrade.from.",
        ),
        (
            "c 1, b 11/11, a 1, d 2",
            (1, 1, 11),
            "ac",
            "Processes a and c speak version 1, which does not name a newer supported one: they "
            "are of Kafka Streams 0.10.0, or have upgrade.from set; bounce them one by one next, "
            "with a newer release or without upgrade.from.",
        ),
        (
            "a 8/8, b 8/11",
            (8, 8, 11),
            "a",
            "Process a speaks version 8 and supports no more: it is of Kafka Streams 2.6 to 2.7; "
            "bounce it next, with a newer release.",
        ),
        (
            "a 4/7, b 4/11",
            (4, 7, 11),
            "a",
            "Process a speaks version 4 and supports no more than 7: it is of no release that is "
            "known here; bounce it next, with a newer release.",
        ),
        (
            "a 11/11, b 12/12",
            (11, 11, 12),
            "a",
            "Process a speaks version 11 and supports no more: it is of Kafka Streams 3.2 or "
            "newer; bounce it next, with a newer release.",
        ),
    ],
)
def test_the_processes_with_the_lowest_version_block_the_upgrade(
    versions: str, numbers: tuple[int, int, int], holders: str, advice: str
) -> None:
    assert find_upgrade_blocker(spoken(versions)) == UpgradeBlocker(
        *numbers, processes=tuple(holders), advice=(advice,)
    )


def test_holders_that_speak_differently_have_a_sentence_each() -> None:
    holdup = find_upgrade_blocker(spoken("a 2, b 1/2, c 11/11"))
    assert holdup is not None
    assert holdup.processes == ("a", "b")
    assert [sentence.split(",")[0] for sentence in holdup.advice] == [
        "Process b speaks version 1",
        "Process a speaks version 2",
    ]


def test_a_version_is_told_by_its_releases() -> None:
    assert [releases_with_version(version) for version in (1, 2, 5, 7, 11, 12, 99)] == [
        "0.10.0",
        "0.10.1 to 1.1",
        "2.4",
        "",
        "3.2 or newer",
        "",
        "",
    ]
