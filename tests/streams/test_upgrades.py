"""Which bounces take an application from one release to another."""

import pytest

from apportion.streams.metadata.releases import RELEASES, initial_metadata_version, known_release
from apportion.streams.metadata.upgrades import forced_upgrade_path, topology_caution, upgrade_path


def way(from_: str, to: str) -> tuple[list[str], str | None]:
    path = upgrade_path(from_, to)
    return [str(bounce) for bounce in path.bounces], path.bridge


@pytest.mark.parametrize(
    ("from_", "to", "bounces", "bridge"),
    [
        ("1.1", "1.1", ["1.1"], None),
        ("0.10.1", "1.1", ["1.1"], None),
        ("0.10.0", "0.10.1", ["0.10.1 with upgrade.from=0.10.0", "0.10.1"], None),
        ("1.1", "2.0", ["2.0 with upgrade.from=1.1", "2.0"], None),
        ("0.11.0", "2.3", ["2.3 with upgrade.from=0.11.0", "2.3"], None),
        ("2.0", "2.3", ["2.3"], None),
        ("2.0", "post-2.0", ["post-2.0"], None),
        ("2.3", "2.4", ["2.4 with upgrade.from=2.3", "2.4"], None),
        ("1.0", "3.9", ["3.9 with upgrade.from=1.0", "3.9"], None),
        ("1.1", "4.0", ["3.9 with upgrade.from=1.1", "4.0"], "3.9"),
        ("2.3", "4.4", ["3.9 with upgrade.from=2.3", "4.4"], "3.9"),
        ("2.4", "4.4", ["4.4"], None),
        ("4.4", "future", ["future"], None),
    ],
)
def test_upgrades_take_one_bounce_or_two(
    from_: str, to: str, bounces: list[str], bridge: str | None
) -> None:
    assert way(from_, to) == (bounces, bridge)


@pytest.mark.parametrize(
    ("from_", "to", "bounces", "bridge"),
    [
        ("4.4", "2.4", ["2.4"], None),
        ("2.3", "2.0", ["2.0"], None),
        ("3.9", "2.3", ["3.9 with upgrade.from=2.3", "2.3"], None),
        ("4.0", "2.3", ["3.9 with upgrade.from=2.3", "2.3"], "3.9"),
        ("2.0", "1.1", ["2.0 with upgrade.from=1.1", "1.1"], None),
        ("1.1", "0.10.0", ["1.1 with upgrade.from=0.10.0", "0.10.0"], None),
    ],
)
def test_downgrades_go_the_same_way_back(
    from_: str, to: str, bounces: list[str], bridge: str | None
) -> None:
    assert way(from_, to) == (bounces, bridge)


def test_where_no_bounce_leads_it_is_said_in_one_sentence() -> None:
    with pytest.raises(ValueError) as refused:
        upgrade_path("3.9", "post-2.0")
    assert str(refused.value) == (
        "no rolling bounce leads from 3.9 to post-2.0: members of post-2.0 rebalance "
        "eagerly, and post-2.0 knows 0.10.0, 0.10.1, "
        "0.10.2, 0.11.0, 1.0, 1.1 for upgrade.from; stop all instances, then start them as post-2.0"
    )


def test_one_bounce_can_be_forced_and_more_than_are_needed_cannot() -> None:
    assert [str(bounce) for bounce in forced_upgrade_path("1.1", "4.0", 1).bounces] == ["4.0"]
    with pytest.raises(ValueError, match=r"from 2.4 to 4.0 one bounce is needed, not 2"):
        forced_upgrade_path("2.4", "4.0", 2)


def test_every_bounce_of_every_way_is_one_that_its_release_can_make() -> None:
    for from_ in RELEASES:
        for to in RELEASES:
            try:
                path = upgrade_path(from_, to)
            except ValueError:
                assert "post-2.0" in (from_, to)
                continue
            for bounce in path.bounces:
                initial_metadata_version(*bounce)  # raises where it is not known
            assert path.bounces[-1] == (known_release(to), None)


def test_the_second_bounce_of_some_topologies_is_from_releases_of_2_4_to_3_4() -> None:
    concerned = {
        (from_, to) for from_ in RELEASES for to in RELEASES if topology_caution(from_, to)
    }
    old = ("2.4", "2.5", "2.6", "2.7", "2.8", "3.0", "3.1", "3.2", "3.3", "3.4")
    new = ("3.5", "3.6", "3.7", "3.8", "3.9", "4.0", "4.1", "4.2", "4.3", "4.4", "future")
    assert concerned == {(from_, to) for from_ in old for to in new}
