"""How long a KIP-848 member keeps the reasons for which it has asked for an assignment; the stories
are in `scripts/consumer-reasons.txt`.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.machine import Instant
from apportion.member.consumer.local_assignors import KEPT_MS, LocalAssignors
from tests.member.script_assignors import AgingAssignor, CountingAssignor
from tests.member.script_player import ScriptPlayer

ACCEPTED = (
    "new consumer counting",
    "reply reason=9 after_ms=700",
    "joined T-0",
    "reply nothing",
    "700 beat member_epoch=1",
)
"""The reason 9 of a member's assignor is accepted, and it asks for nothing any more."""


def check_it_is_said_in_time(delays_ms: list[int]) -> None:
    """A reason that no newer epoch follows is said again at the first response after KEPT_MS.

    delays_ms: of the responses. Heartbeats are a second apart, or as far as their responses.
    """
    player = ScriptPlayer()
    for step in ACCEPTED:
        player.play(step)
    now_ms = said_ms = 700
    actions: list[str] = []
    for delay_ms in delays_ms:
        if not actions:
            now_ms += 1_000
            actions = player.play(f"{now_ms} tick")
        now_ms += delay_ms
        number = actions[0].split()[0]
        actions = player.play(f"{now_ms} answer {number} member_epoch=1")
        if any("client_assignors" in each for each in actions):
            said_ms = now_ms
        assert now_ms < said_ms + KEPT_MS


@given(st.lists(st.integers(0, 4_000), max_size=40))
def test_a_reason_that_no_epoch_follows_is_said_again_after_slow_responses(
    delays_ms: list[int],
) -> None:
    check_it_is_said_in_time(delays_ms)


def test_a_reason_that_is_not_repeated_is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    record_accepted = LocalAssignors.record_accepted

    def repeats_nothing(self: LocalAssignors, epoch: int, now: Instant) -> None:
        record_accepted(self, epoch, now)
        self._must_repeat = False

    monkeypatch.setattr(LocalAssignors, "record_accepted", repeats_nothing)
    with pytest.raises(AssertionError):
        check_it_is_said_in_time([0] * 32)


def test_a_repeated_offer_has_no_reason_that_a_newer_epoch_has_followed() -> None:
    one, other = CountingAssignor(), AgingAssignor()
    assignors = LocalAssignors((one, other))

    def offered(*, is_full: bool = False) -> dict[str, int] | None:
        sent = assignors.offers(("t",), is_full=is_full, has_news=False)
        return None if sent is None else {each.name: each.reason for each in sent}

    for now_ms, epoch, assignor in ((0, 1, one), (10_000, 2, other)):
        assignors.request_rebalance(assignor.name, 7)
        assert offered() == {one.name: 0, other.name: 0} | {assignor.name: 7}
        assignors.record_accepted(epoch, Instant(now_ms, 0))
    assert offered(is_full=True) == {one.name: 7, other.name: 7}
    assignors.record_accepted(2, Instant(KEPT_MS, 0))
    assert offered() is None
    assignors.record_accepted(2, Instant(10_000 + KEPT_MS, 0))
    assert offered() == {one.name: 0, other.name: 7}
