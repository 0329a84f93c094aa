import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.errors import Code, Refused
from apportion.streams.metadata.model import LATEST
from apportion.streams.metadata.probing import (
    MetadataVersions,
    NextVersion,
    VersionDecision,
    decide_versions,
    next_subscription_version,
)
from apportion.streams.metadata.releases import Release, VersionNegotiation

OLD, NEW = 11, 12


def of(metadata: int, manners: VersionNegotiation) -> Release:
    """A release that understands so much."""
    return Release("any", metadata, manners, (), eager=True, cooperative=True)


def test_a_group_of_one_version_goes_on_with_it() -> None:
    versions = {"a": MetadataVersions(11, 11), "b": MetadataVersions(11, 11)}
    assert decide_versions(versions, of(11, VersionNegotiation.SHARES)) == VersionDecision(
        MetadataVersions(11, 11), (), (), MetadataVersions(11, 11), upgrade_pending=False
    )


def test_an_old_leader_gives_members_from_the_future_their_share_in_its_own_version() -> None:
    versions = {"a": MetadataVersions(OLD, OLD), "b": MetadataVersions(NEW, NEW)}
    assert decide_versions(versions, of(OLD, VersionNegotiation.SHARES)) == VersionDecision(
        MetadataVersions(OLD, OLD), ("b",), (), MetadataVersions(OLD, OLD), upgrade_pending=False
    )
    assert next_subscription_version(
        NEW, MetadataVersions(OLD, OLD), of(NEW, VersionNegotiation.SHARES)
    ) == NextVersion(OLD, "somebody understands no more than version 11")


def test_an_old_leader_answers_newer_members_with_its_version_as_in_kip_268() -> None:
    versions = {"a": MetadataVersions(3, 3), "b": MetadataVersions(12, 12)}
    assert decide_versions(versions, of(3, VersionNegotiation.PROBES)) == VersionDecision(
        MetadataVersions(3, 3), ("b",), ("b",), MetadataVersions(3, 3), upgrade_pending=False
    )
    assert next_subscription_version(
        12, MetadataVersions(3, 3), of(12, VersionNegotiation.PROBES)
    ) == NextVersion(3, "the leader understands version 3, not 12")


def test_a_new_leader_speaks_the_oldest_version_while_somebody_does() -> None:
    versions = {
        "a": MetadataVersions(OLD, OLD),
        "b": MetadataVersions(OLD, NEW),
        "c": MetadataVersions(NEW, NEW),
    }
    assert decide_versions(versions, of(NEW, VersionNegotiation.SHARES)) == VersionDecision(
        MetadataVersions(OLD, OLD), (), (), MetadataVersions(OLD, OLD), upgrade_pending=False
    )
    assert decide_versions(versions, of(NEW, VersionNegotiation.PROBES)) == VersionDecision(
        MetadataVersions(OLD, NEW), (), (), MetadataVersions(NEW, NEW), upgrade_pending=False
    )


def test_when_all_understand_more_every_member_steps_up_by_itself_since_2_4() -> None:
    versions = {"a": MetadataVersions(OLD, NEW), "b": MetadataVersions(NEW, NEW)}
    ruling = decide_versions(versions, of(NEW, VersionNegotiation.SHARES))
    assert ruling == VersionDecision(
        MetadataVersions(OLD, NEW), (), (), MetadataVersions(OLD, NEW), upgrade_pending=True
    )
    assert next_subscription_version(
        OLD, ruling.versions, of(NEW, VersionNegotiation.SHARES)
    ) == NextVersion(NEW, "all understand version 12 now")
    assert next_subscription_version(
        NEW, ruling.versions, of(NEW, VersionNegotiation.SHARES)
    ) == NextVersion(NEW, "somebody speaks version 11 yet")


def test_a_group_of_which_nobody_can_be_read_is_over() -> None:
    assert decide_versions({}, of(11, VersionNegotiation.SHARES)) == VersionDecision(
        MetadataVersions(11, 11), (), (), MetadataVersions(11, 11), upgrade_pending=False
    )


def test_a_leader_bounced_last_alone_triggers_the_last_rebalance_as_in_kip_268() -> None:
    versions = {
        "a": MetadataVersions(3, 12),
        "b": MetadataVersions(3, 12),
        "leader": MetadataVersions(12, 12),
    }
    ruling = decide_versions(versions, of(12, VersionNegotiation.PROBES))
    assert ruling == VersionDecision(
        MetadataVersions(3, 12), (), (), MetadataVersions(12, 12), upgrade_pending=True
    )
    assert next_subscription_version(
        3, ruling.versions, of(12, VersionNegotiation.PROBES)
    ) == NextVersion(12)
    assert next_subscription_version(
        12, ruling.versions, of(12, VersionNegotiation.PROBES), leads_unfinished=True
    ) == NextVersion(12, "all understand version 12 now")


def test_versions_1_and_2_are_not_probed() -> None:
    versions = {"a": MetadataVersions(2), "b": MetadataVersions(11, 11)}
    assert decide_versions(versions, of(11, VersionNegotiation.SHARES)) == VersionDecision(
        MetadataVersions(2), (), (), MetadataVersions(2), upgrade_pending=False
    )
    assert next_subscription_version(
        11, MetadataVersions(2), of(11, VersionNegotiation.SHARES)
    ) == NextVersion(11)
    assert next_subscription_version(
        1, MetadataVersions(1), of(2, VersionNegotiation.FAILS)
    ) == NextVersion(1)


@pytest.mark.parametrize(
    ("versions", "latest", "manners", "why"),
    [
        (
            {"a": MetadataVersions(1), "b": MetadataVersions(2)},
            1,
            VersionNegotiation.FAILS,
            "'b' speaks metadata version 2, this leader understands 1",
        ),
        (
            {"a": MetadataVersions(2), "b": MetadataVersions(12, 12)},
            11,
            VersionNegotiation.SHARES,
            "another member speaks 2, which cannot probe: stop it, or set",
        ),
        (
            {"a": MetadataVersions(2), "b": MetadataVersions(12, 12)},
            3,
            VersionNegotiation.PROBES,
            "another member speaks 2, which cannot probe: stop it, or set",
        ),
    ],
)
def test_members_from_the_future_and_from_before_probing_have_no_leader_in_common(
    versions: dict[str, MetadataVersions], latest: int, manners: VersionNegotiation, why: str
) -> None:
    with pytest.raises(Refused, match=why) as refusal:
        decide_versions(versions, of(latest, manners))
    assert refusal.value.code is Code.INCONSISTENT_GROUP_PROTOCOL


@pytest.mark.parametrize(
    "spoken", [MetadataVersions(0, 11), MetadataVersions(-3, 11), MetadataVersions(11, 4)]
)
def test_versions_that_cannot_be_are_refused_with_the_member(spoken: MetadataVersions) -> None:
    with pytest.raises(
        Refused,
        match=f"'b' speaks metadata version {spoken.used} and says to support {spoken.supported}",
    ):
        decide_versions(
            {"a": MetadataVersions(11, 11), "b": spoken}, of(11, VersionNegotiation.SHARES)
        )


@pytest.mark.parametrize(
    ("sent", "received", "why"),
    [
        (10, MetadataVersions(11, 11), "version 10 was sent and version 11 came back"),
        (
            11,
            MetadataVersions(11, 12),
            "all are said to support version 12; this member understands 11",
        ),
    ],
)
def test_an_assignment_that_knows_more_than_its_subscription_is_refused(
    sent: int, received: MetadataVersions, why: str
) -> None:
    with pytest.raises(Refused, match=why):
        next_subscription_version(sent, received, of(11, VersionNegotiation.SHARES))


@given(
    st.sampled_from((VersionNegotiation.PROBES, VersionNegotiation.SHARES)),
    st.lists(st.tuples(st.integers(3, LATEST), st.integers(3, LATEST)), min_size=1, max_size=6),
    st.integers(0, 5),
)
def test_any_group_that_can_probe_comes_to_the_newest_version_that_all_understand(
    manners: VersionNegotiation, members: list[tuple[int, int]], leader: int
) -> None:
    understood = {f"m{number}": latest for number, (_, latest) in enumerate(members)}
    speaks = {f"m{number}": min(first, latest) for number, (first, latest) in enumerate(members)}
    who = f"m{leader % len(members)}"
    for _ in range(4):
        ruling = decide_versions(
            {name: MetadataVersions(speaks[name], understood[name]) for name in speaks},
            of(understood[who], manners),
        )
        rejoins = False
        for name in speaks:
            received = ruling.future_versions if name in ruling.future_members else ruling.versions
            step = next_subscription_version(
                speaks[name],
                received,
                of(understood[name], manners),
                leads_unfinished=name == who and ruling.upgrade_pending,
            )
            speaks[name], rejoins = step.used, rejoins or step.rejoin_reason is not None
        if not rejoins:
            break
    assert not rejoins
    assert ruling.versions.used == min(understood.values())
    if manners is VersionNegotiation.SHARES:
        assert set(speaks.values()) == {min(understood.values())}
