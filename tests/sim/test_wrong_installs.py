"""Each wrong ConsumerGroupInstallAssignment of the simulator is wrong in the way that it says."""

from random import Random

import pytest

from apportion.errors import Code
from apportion.sim.actors import wrong_installs
from apportion.sim.actors.wrong_installs import WAYS, Install, wrong_install
from apportion.wire.messages.consumer_group_install_assignment import (
    ConsumerGroupInstallAssignmentRequest,
)
from apportion.wire.messages.consumer_group_prepare_assignment import (
    ConsumerGroupPrepareAssignmentResponse,
)
from tests.coord.client_side import EVERYTHING, installed, join, prepare, with_two
from tests.coord.shard_driver import ShardDriver, state_of, topics

CODES = {
    "_older_epoch": Code.STALE_MEMBER_EPOCH,
    "_newer_epoch": Code.STALE_MEMBER_EPOCH,
    "_unknown_member": Code.INVALID_REQUEST,
    "_member_twice": Code.INVALID_REQUEST,
    "_partition_twice": Code.INVALID_REQUEST,
    "_unknown_partition": Code.INVALID_REQUEST,
    "_unknown_topic": Code.INVALID_REQUEST,
    "_to_no_subscriber": Code.INVALID_REQUEST,
    "_in_anothers_name": Code.UNKNOWN_MEMBER_ID,
}
WITHOUT_MEMBERS = ("_older_epoch", "_newer_epoch", "_unknown_member")
"""The ways that are possible in a group without members."""


def prepared_group() -> tuple[ShardDriver, Install, ConsumerGroupPrepareAssignmentResponse]:
    """A group of which "b" computes the target and "c" reads another topic, and a right request."""
    driver = with_two(ShardDriver(known=topics(foo=3, bar=1)))
    join(driver, "c", topics=("bar",))
    response = prepare(driver, "b", 2)
    request = ConsumerGroupInstallAssignmentRequest(
        group_id="g",
        member_id="b",
        member_epoch=2,
        group_epoch=response.group_epoch,
        members=(
            installed("a", EVERYTHING),
            installed("c", {"bar": [0]}),
            installed("b", {}),
        ),
    )
    return driver, request, response


def test_the_right_request_is_taken() -> None:
    driver, request, _ = prepared_group()
    assert driver.send(request, version=0).error_code == Code.NONE


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_a_wrong_request_is_refused_and_saves_nothing(
    way: wrong_installs.Way,
) -> None:
    driver, request, response = prepared_group()
    before = state_of(driver.shard)
    wrong = way(Random(0), request, response)
    assert driver.send(wrong, version=0).error_code == CODES[way.__name__]
    assert state_of(driver.shard) == before


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_a_way_that_needs_members_leaves_the_request_of_an_empty_group_right(
    way: wrong_installs.Way,
) -> None:
    nothing = ConsumerGroupInstallAssignmentRequest(group_id="g", member_id="b", group_epoch=9)
    sent = way(Random(0), nothing, ConsumerGroupPrepareAssignmentResponse())
    assert (sent != nothing) == (way.__name__ in WITHOUT_MEMBERS)


def test_every_way_comes_up() -> None:
    _, request, response = prepared_group()
    wrong = {repr(wrong_install(Random(seed), request, response)) for seed in range(200)}
    requests = {
        way.__name__: {repr(way(Random(seed), request, response)) for seed in range(50)}
        for way in WAYS
    }
    assert {name for name, own in requests.items() if own & wrong} == set(CODES)
    # No request can stand for two ways.
    assert sum(map(len, requests.values())) == len(set().union(*requests.values()))
