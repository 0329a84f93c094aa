import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.errors import Code, Refused
from apportion.streams.metadata.model import LATEST
from apportion.streams.metadata.probing import Ruling, Spoken, Step, rule, take_up
from apportion.streams.metadata.releases import Manners, Release

OLD, NEW = 11, 12


def of(metadata, manners):
    """A release that understands so much."""
    return Release("any", metadata, manners, (), eager=True, cooperative=True)


def test_a_group_of_one_version_goes_on_with_it():
    said = {"a": Spoken(11, 11), "b": Spoken(11, 11)}
    assert rule(said, of(11, Manners.SHARES)) == Ruling(Spoken(11, 11), (), (), Spoken(11, 11), unfinished=False)


def test_an_old_leader_gives_members_from_the_future_their_share_in_its_own_version():
    said = {"a": Spoken(OLD, OLD), "b": Spoken(NEW, NEW)}
    assert rule(said, of(OLD, Manners.SHARES)) == Ruling(Spoken(OLD, OLD), ("b",), (), Spoken(OLD, OLD), unfinished=False)
    assert take_up(NEW, Spoken(OLD, OLD), of(NEW, Manners.SHARES)) == Step(OLD, "somebody understands no more than version 11")


def test_as_in_kip_268_an_old_leader_answers_members_from_the_future_with_nothing_and_its_version():
    said = {"a": Spoken(3, 3), "b": Spoken(12, 12)}
    assert rule(said, of(3, Manners.PROBES)) == Ruling(Spoken(3, 3), ("b",), ("b",), Spoken(3, 3), unfinished=False)
    assert take_up(12, Spoken(3, 3), of(12, Manners.PROBES)) == Step(3, "the leader understands version 3, not 12")


def test_a_new_leader_speaks_the_oldest_version_while_somebody_does():
    said = {"a": Spoken(OLD, OLD), "b": Spoken(OLD, NEW), "c": Spoken(NEW, NEW)}
    assert rule(said, of(NEW, Manners.SHARES)) == Ruling(Spoken(OLD, OLD), (), (), Spoken(OLD, OLD), unfinished=False)
    assert rule(said, of(NEW, Manners.PROBES)) == Ruling(Spoken(OLD, NEW), (), (), Spoken(NEW, NEW), unfinished=False)


def test_when_all_understand_more_every_member_steps_up_by_itself_since_2_4():
    said = {"a": Spoken(OLD, NEW), "b": Spoken(NEW, NEW)}
    ruling = rule(said, of(NEW, Manners.SHARES))
    assert ruling == Ruling(Spoken(OLD, NEW), (), (), Spoken(OLD, NEW), unfinished=True)
    assert take_up(OLD, ruling.spoken, of(NEW, Manners.SHARES)) == Step(NEW, "all understand version 12 now")
    assert take_up(NEW, ruling.spoken, of(NEW, Manners.SHARES)) == Step(NEW, "somebody speaks version 11 yet")


def test_a_group_of_which_nobody_can_be_read_is_over():
    assert rule({}, of(11, Manners.SHARES)) == Ruling(Spoken(11, 11), (), (), Spoken(11, 11), unfinished=False)


def test_when_the_leader_was_bounced_last_it_alone_triggers_the_last_rebalance_as_in_kip_268():
    said = {"a": Spoken(3, 12), "b": Spoken(3, 12), "leader": Spoken(12, 12)}
    ruling = rule(said, of(12, Manners.PROBES))
    assert ruling == Ruling(Spoken(3, 12), (), (), Spoken(12, 12), unfinished=True)
    assert take_up(3, ruling.spoken, of(12, Manners.PROBES)) == Step(12)
    assert take_up(12, ruling.spoken, of(12, Manners.PROBES), leads_unfinished=True) == Step(12, "all understand version 12 now")


def test_versions_1_and_2_are_not_probed():
    said = {"a": Spoken(2), "b": Spoken(11, 11)}
    assert rule(said, of(11, Manners.SHARES)) == Ruling(Spoken(2), (), (), Spoken(2), unfinished=False)
    assert take_up(11, Spoken(2), of(11, Manners.SHARES)) == Step(11)
    assert take_up(1, Spoken(1), of(2, Manners.FAILS)) == Step(1)


@pytest.mark.parametrize(
    ("said", "latest", "manners", "why"),
    [
        ({"a": Spoken(1), "b": Spoken(2)}, 1, Manners.FAILS, "'b' speaks metadata version 2, this leader understands 1"),
        ({"a": Spoken(2), "b": Spoken(12, 12)}, 11, Manners.SHARES, "another member speaks 2, which cannot probe: stop it, or set"),
        ({"a": Spoken(2), "b": Spoken(12, 12)}, 3, Manners.PROBES, "another member speaks 2, which cannot probe: stop it, or set"),
    ],
)
def test_members_from_the_future_and_from_before_probing_have_no_leader_in_common(said, latest, manners, why):
    with pytest.raises(Refused, match=why) as refusal:
        rule(said, of(latest, manners))
    assert refusal.value.code is Code.INCONSISTENT_GROUP_PROTOCOL


@pytest.mark.parametrize("spoken", [Spoken(0, 11), Spoken(-3, 11), Spoken(11, 4)])
def test_versions_that_cannot_be_are_refused_with_the_member(spoken):
    with pytest.raises(Refused, match=f"'b' speaks metadata version {spoken.used} and says to support {spoken.supported}"):
        rule({"a": Spoken(11, 11), "b": spoken}, of(11, Manners.SHARES))


@pytest.mark.parametrize(
    ("sent", "heard", "why"),
    [
        (10, Spoken(11, 11), "version 10 was sent and version 11 came back"),
        (11, Spoken(11, 12), "all are said to support version 12; this member understands 11"),
    ],
)
def test_an_assignment_that_knows_more_than_its_subscription_is_refused(sent, heard, why):
    with pytest.raises(Refused, match=why):
        take_up(sent, heard, of(11, Manners.SHARES))


@given(
    st.sampled_from((Manners.PROBES, Manners.SHARES)),
    st.lists(st.tuples(st.integers(3, LATEST), st.integers(3, LATEST)), min_size=1, max_size=6),
    st.integers(0, 5),
)
def test_any_group_that_can_probe_comes_to_the_newest_version_that_all_understand(manners, members, leader):
    understood = {f"m{number}": latest for number, (_, latest) in enumerate(members)}
    speaks = {f"m{number}": min(first, latest) for number, (first, latest) in enumerate(members)}
    who = f"m{leader % len(members)}"
    for _ in range(4):
        ruling = rule({name: Spoken(speaks[name], understood[name]) for name in speaks}, of(understood[who], manners))
        rejoins = False
        for name in speaks:
            heard = ruling.spoken_to_future if name in ruling.future else ruling.spoken
            step = take_up(speaks[name], heard, of(understood[name], manners), leads_unfinished=name == who and ruling.unfinished)
            speaks[name], rejoins = step.used, rejoins or step.rejoins is not None
        if not rejoins:
            break
    assert not rejoins
    assert ruling.spoken.used == min(understood.values())
    if manners is Manners.SHARES:
        assert set(speaks.values()) == {min(understood.values())}
