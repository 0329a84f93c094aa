import pytest

from apportion.streams.metadata.releases import (
    RELEASES,
    initial_metadata_version,
    is_eager,
    known_release,
)


def test_every_release_speaks_the_version_of_its_jar() -> None:
    newest: dict[int, list[str]] = {}
    for name, release in RELEASES.items():
        newest.setdefault(release.newest_version, []).append(name)
    assert newest == {
        1: ["0.10.0"],
        2: ["0.10.1", "0.10.2", "0.11.0", "1.0", "1.1"],
        3: ["2.0"],
        4: ["2.1", "2.2", "2.3"],
        5: ["2.4"],
        6: ["2.5"],
        8: ["2.6", "2.7"],
        9: ["2.8"],
        10: ["3.0", "3.1"],
        11: [*(f"3.{minor}" for minor in range(2, 10)), *(f"4.{minor}" for minor in range(5))],
        12: ["post-2.0", "future"],
    }


@pytest.mark.parametrize(
    ("release", "upgrade_from", "version", "eager"),
    [
        ("0.10.0", None, 1, True),
        ("1.1", None, 2, True),
        ("1.1", "0.10.0", 1, True),
        ("2.0", None, 3, True),
        ("2.0", "0.10.0", 1, True),
        ("2.0", "1.1", 2, True),
        ("2.4", None, 5, False),
        ("2.4", "0.11.0", 2, True),
        ("2.4", "2.3", 5, True),
        ("3.9", "1.1", 2, True),
        ("3.9", "2.0", 11, True),
        ("3.9", "3.3", 11, False),
        ("4.4", "4.3", 11, False),
        ("future", None, 12, False),
    ],
)
def test_upgrade_from_lowers_the_version_and_makes_members_eager(
    release: str, upgrade_from: str | None, version: int, eager: bool
) -> None:
    known = known_release(release)
    assert (initial_metadata_version(known, upgrade_from), is_eager(known, upgrade_from)) == (
        version,
        eager,
    )


@pytest.mark.parametrize(
    ("release", "upgrade_from", "why"),
    [
        ("0.10.0", "0.10.0", "Kafka Streams 0.10.0 has no upgrade.from=0.10.0: it knows none"),
        ("1.0", "0.10.1", "Kafka Streams 1.0 has no upgrade.from=0.10.1: it knows 0.10.0"),
        ("3.2", "3.1", "Kafka Streams 3.2 has no upgrade.from=3.1: it knows 0.10.0, .*, 2.3$"),
        ("3.9", "4.0", "Kafka Streams 3.9 has no upgrade.from=4.0: it knows 0.10.0, .*, 3.8$"),
        ("4.0", "4.0", "Kafka Streams 4.0 has no upgrade.from=4.0: it knows 2.4, .*, 3.9$"),
        (
            "4.4",
            "post-2.0",
            "Kafka Streams 4.4 has no upgrade.from=post-2.0: it knows 2.4, .*, 4.3$",
        ),
        (
            "4.0",
            "1.1",
            "Kafka Streams 4.0 has no upgrade.from=1.1: it cannot rebalance eagerly; go "
            "by way of 3.9",
        ),
        ("3.9", "7", "upgrade.from must name a release such as 1.1, not '7'"),
    ],
)
def test_an_upgrade_from_that_a_release_does_not_know_is_refused(
    release: str, upgrade_from: str, why: str
) -> None:
    with pytest.raises(ValueError, match=why):
        initial_metadata_version(known_release(release), upgrade_from)


def test_a_release_is_found_by_its_patch_level_too() -> None:
    assert [known_release(name).name for name in ("0.10.0.1", "1.1.x", "4.0.1", "4.4")] == [
        "0.10.0",
        "1.1",
        "4.0",
        "4.4",
    ]
    with pytest.raises(
        ValueError,
        match=r"there is no release '5\.0' of Kafka Streams known here; there are 0\.10\.0, ",
    ):
        known_release("5.0")


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("4", "did you mean 4.0?"), ("3", "did you mean 3.0?"), ("5.0", "there are")],
)
def test_a_major_version_alone_gets_its_first_release_suggested(typed: str, meant: str) -> None:
    with pytest.raises(ValueError) as refusal:
        known_release(typed)
    assert meant in str(refusal.value)
