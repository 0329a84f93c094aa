"""A ticket is answered once. A second answer is a defect, in a later step as well, and also if the
connection of the request has closed.
"""

import pytest

from apportion.coord import admin
from apportion.coord.shard import HANDLERS
from apportion.coord.turn import Turn
from apportion.machine import Arrived
from apportion.wire.messages.list_groups import ListGroupsRequest
from tests.coord.classic_shard_driver import ClassicShardDriver, ScriptedClient


@pytest.mark.parametrize("hangs_up", [False, True])
def test_a_ticket_has_no_second_answer_in_a_later_step(hangs_up: bool) -> None:
    driver, client = ClassicShardDriver(), ScriptedClient("a")
    ticket = driver.ask(client.joining(), 3)
    if hangs_up:
        driver.hang_up(ticket)
    driver.advance(0)  # the group begins its first generation, and the JoinGroup is over
    assert [spent for spent, _ in driver.responses] == ([] if hangs_up else [ticket])
    (member,) = driver.group.live.members.values()
    driver.group.live.parked[member.member_id] = ticket  # as if it were not answered
    client.member_id = member.member_id
    with pytest.raises(AssertionError, match=f"ticket {ticket} has its answer already"):
        driver.ask(client.leaving(), 5)


def test_a_ticket_has_no_second_answer_in_the_same_step(monkeypatch: pytest.MonkeyPatch) -> None:
    def answers_twice(turn: Turn, arrived: Arrived) -> None:
        admin.list_groups(turn, arrived)
        admin.list_groups(turn, arrived)

    monkeypatch.setitem(HANDLERS, ListGroupsRequest, answers_twice)
    with pytest.raises(AssertionError, match="ticket 1 has its answer already"):
        ClassicShardDriver().ask(ListGroupsRequest(), 4)
