"""The guards of what members offer: they hold, and one that is switched off is missed.

The bounds are small here. They protect the broker's memory, and no simulated group comes near them.
"""

from contextlib import nullcontext
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from apportion.coord.consumer import fencing, offering_members
from apportion.coord.consumer.client_assignors import metadata_bytes, offer_of
from apportion.wire.records.groups import RecordClientAssignor
from tests.coord.client_side import group_of, offer
from tests.coord.shard_driver import ShardDriver, state_of
from tests.coord.test_client_assignor_laws import ClientAssignorMachine
from tests.coord.test_guards import SEARCH

MOST_OFFERS, MOST_BYTES = 2, 5


class Step(NamedTuple):
    """What one client does: it joins, or sends what it offers, or a heartbeat without news."""

    client: str
    joins: bool
    offers: str | None
    size: int
    reason: int
    wait_ms: int


STEPS = st.lists(
    st.builds(
        Step,
        client=st.sampled_from("abc"),
        joins=st.booleans(),
        offers=st.sampled_from(["x", "y", "z", None]),
        size=st.integers(0, 4),
        reason=st.integers(0, 1),
        wait_ms=st.sampled_from([0, 0, 1_000]),
    ),
    max_size=20,
)


def play(driver: ShardDriver, step: Step) -> None:
    """The client does it; what is refused changes nothing, and a reason that is accepted stays,
    whether or not there is room for the metadata beside it.
    """
    driver.advance(step.wait_ms)
    members = members_of(driver)
    facts: dict[str, Any] = {}
    if step.offers is not None:
        first = offer(metadata=bytes(step.size), reason=step.reason)
        facts["client_assignors"] = (first, offer(step.offers))
    before, written = state_of(driver.shard), len(driver.log)
    if step.joins:
        answer = driver.join(step.client, **facts)
    elif step.client in members:
        answer = driver.beat(step.client, members[step.client].epoch, **facts)
    else:
        return
    if answer.error_code:
        assert (state_of(driver.shard), len(driver.log)) == (before, written)
    elif step.offers is not None and step.reason:
        saved = members_of(driver)[step.client].metadata.client_assignors
        assert (early_of(driver, step.client) or saved)[0].reason == step.reason


def members_of(driver: ShardDriver) -> dict[str, Any]:
    """The members of the group, if there is one."""
    group: Any = driver.shard.ledger.groups.get("g")
    return {} if group is None else group.saved.members


def early_of(driver: ShardDriver, member_id: str) -> tuple[RecordClientAssignor, ...]:
    """The assignors of a member that wait to be saved."""
    offering = group_of(driver).live.offering_members.get(member_id)
    return () if offering is None else offering.early or ()


def check_bounds(steps: list[Step]) -> None:
    """After each step the group has no more offers, and no more metadata, than it may have.

    Metadata that wait to be saved count, too.
    """
    driver = ShardDriver()
    for step in steps:
        play(driver, step)
        members = members_of(driver)
        offered = [each.metadata.client_assignors for each in members.values()]
        assert len({offer_of(each) for each in offered if each}) <= MOST_OFFERS
        held = [
            max(metadata_bytes(saved), metadata_bytes(early_of(driver, name)))
            for name, saved in zip(members, offered, strict=True)
        ]
        assert sum(held) <= MOST_BYTES


@pytest.fixture
def small_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fencing, "MOST_OFFERS", MOST_OFFERS)
    monkeypatch.setattr(fencing, "MAX_GROUP_METADATA_BYTES", MOST_BYTES)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(STEPS)
@pytest.mark.usefixtures("small_bounds")
def test_no_history_takes_a_group_beyond_its_bounds(steps: list[Step]) -> None:
    check_bounds(steps)


@pytest.mark.usefixtures("small_bounds")
@pytest.mark.parametrize(
    ("module", "guard", "faulty"),
    [
        (fencing, "MOST_OFFERS", 1 << 31),
        (fencing, "has_room_for_metadata", lambda *_: True),
        # Nothing of what has no room counts; all of it does.
        (offering_members, "with_older_metadata", lambda _newer, older: older),
        (offering_members, "with_older_metadata", lambda newer, _older: newer),
    ],
)
def test_a_bound_that_is_switched_off_is_missed(
    monkeypatch: pytest.MonkeyPatch, module: Any, guard: str, faulty: Any
) -> None:
    monkeypatch.setattr(module, guard, faulty)
    with pytest.raises(AssertionError):
        SEARCH(given(STEPS)(check_bounds))()


@pytest.mark.parametrize("is_checked", [True, False])
def test_without_the_check_of_agreement_a_newer_offer_takes_an_assignor_away(
    monkeypatch: pytest.MonkeyPatch, is_checked: bool
) -> None:
    if not is_checked:
        monkeypatch.setattr(fencing, "check_agreement", lambda *_: None)
    group = ClientAssignorMachine()
    group.begin(budget=0, interval_ms=0, offload_size=10_000)
    for _ in range(2):
        group.join(topic_names=("foo",), is_static=False)
    group.offer_assignors(which=1, offers=(offer("other"),), metadata=b"")
    with nullcontext() if is_checked else pytest.raises(AssertionError):
        group.heartbeat(which=1, is_lost=False, assignor=None)
