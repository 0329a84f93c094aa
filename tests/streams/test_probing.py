from typing import Any

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
from tests.streams.metadata import spoken, versions

PROBES, SHARES = VersionNegotiation.PROBES, VersionNegotiation.SHARES
"""The manners of KIP-268, and those since 2.4."""


def of(metadata: int, manners: VersionNegotiation) -> Release:
    """A release that understands so much."""
    return Release("any", metadata, manners, (), eager=True, cooperative=True)


def decision(used: str, future: str | None = None, **more: Any) -> VersionDecision:
    """These versions, and others for members from the future."""
    facts: dict[str, Any] = {
        "future_members": (),
        "empty_members": (),
        "upgrade_pending": False,
    }
    return VersionDecision(
        versions=versions(used), future_versions=versions(future or used), **(facts | more)
    )


@pytest.mark.parametrize(
    ("speak", "leader", "decided"),
    [
        # a group of one version goes on with it, and so does one of which nobody can be read
        ("a 11/11, b 11/11", of(11, SHARES), decision("11/11")),
        ("", of(11, SHARES), decision("11/11")),
        # an old leader gives members from the future their share in its own version
        ("a 11/11, b 12/12", of(11, SHARES), decision("11/11", future_members=("b",))),
        # ... but answers them with its version as in KIP-268
        (
            "a 3/3, b 12/12",
            of(3, PROBES),
            decision("3/3", future_members=("b",), empty_members=("b",)),
        ),
        # a new leader speaks the oldest version while somebody does
        ("a 11/11, b 11/12, c 12/12", of(12, SHARES), decision("11/11")),
        ("a 11/11, b 11/12, c 12/12", of(12, PROBES), decision("11/12", "12/12")),
        # all understand more
        ("a 11/12, b 12/12", of(12, SHARES), decision("11/12", upgrade_pending=True)),
        (
            "a 3/12, b 3/12, leader 12/12",
            of(12, PROBES),
            decision("3/12", "12/12", upgrade_pending=True),
        ),
        # versions 1 and 2 are not probed
        ("a 2, b 11/11", of(11, SHARES), decision("2")),
    ],
)
def test_a_leader_decides_by_what_all_speak_and_support(
    speak: str, leader: Release, decided: VersionDecision
) -> None:
    assert decide_versions(spoken(speak) if speak else {}, leader) == decided


@pytest.mark.parametrize(
    ("sent", "received", "member", "step"),
    [
        (
            12,
            "11/11",
            of(12, SHARES),
            NextVersion(11, "somebody understands no more than version 11"),
        ),
        (12, "3/3", of(12, PROBES), NextVersion(3, "the leader understands version 3, not 12")),
        # every member steps up by itself since 2.4
        (11, "11/12", of(12, SHARES), NextVersion(12, "all understand version 12 now")),
        (12, "11/12", of(12, SHARES), NextVersion(12, "somebody speaks version 11 yet")),
        # before, the leader alone triggers the last rebalance
        (3, "3/12", of(12, PROBES), NextVersion(12)),
        # versions 1 and 2 are not probed
        (11, "2", of(11, SHARES), NextVersion(11)),
        (1, "1", of(2, VersionNegotiation.FAILS), NextVersion(1)),
    ],
)
def test_a_member_goes_on_with_a_version_by_what_it_sent_and_received(
    sent: int, received: str, member: Release, step: NextVersion
) -> None:
    assert next_subscription_version(sent, versions(received), member) == step


def test_a_leader_bounced_last_alone_triggers_the_last_rebalance_as_in_kip_268() -> None:
    assert next_subscription_version(
        12, versions("3/12"), of(12, PROBES), leads_unfinished=True
    ) == NextVersion(12, "all understand version 12 now")


@pytest.mark.parametrize(
    ("speak", "leader", "why"),
    [
        (
            "a 1, b 2",
            of(1, VersionNegotiation.FAILS),
            "'b' speaks metadata version 2, this leader understands 1",
        ),
        (
            "a 2, b 12/12",
            of(11, SHARES),
            "another member speaks 2, which cannot probe: stop it, or set",
        ),
        (
            "a 2, b 12/12",
            of(3, PROBES),
            "another member speaks 2, which cannot probe: stop it, or set",
        ),
    ],
)
def test_members_from_the_future_and_from_before_probing_have_no_leader_in_common(
    speak: str, leader: Release, why: str
) -> None:
    with pytest.raises(Refused, match=why) as refusal:
        decide_versions(spoken(speak), leader)
    assert refusal.value.code is Code.INCONSISTENT_GROUP_PROTOCOL


@pytest.mark.parametrize("said", ["0/11", "-3/11", "11/4"])
def test_versions_that_cannot_be_are_refused_with_the_member(said: str) -> None:
    used, supported = said.split("/")
    why = f"'b' speaks metadata version {used} and says to support {supported}"
    with pytest.raises(Refused, match=why):
        decide_versions(spoken(f"a 11/11, b {said}"), of(11, SHARES))


@pytest.mark.parametrize(
    ("sent", "received", "why"),
    [
        (10, "11/11", "version 10 was sent and version 11 came back"),
        (11, "11/12", "all are said to support version 12; this member understands 11"),
    ],
)
def test_an_assignment_that_knows_more_than_its_subscription_is_refused(
    sent: int, received: str, why: str
) -> None:
    with pytest.raises(Refused, match=why):
        next_subscription_version(sent, versions(received), of(11, SHARES))


@given(
    st.sampled_from((PROBES, SHARES)),
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
    if manners is SHARES:
        assert set(speaks.values()) == {min(understood.values())}
