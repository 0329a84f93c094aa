"""What a member must live through on any broker: played against ours in tests/client and against a
real Kafka in tests/kafka.

Each scenario takes `bootstrap`, the address of a broker whose sessions last some seconds, and makes
a topic and a group of its own. `membership` says which kind of member plays it: KIP-848 here,
classic where a module has a fixture of its own.
"""

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any
from uuid import uuid4

import pytest

from apportion.client.cluster import Cluster
from apportion.client.connection import Disconnected
from apportion.client.group_membership import GroupMembership
from apportion.client.members import new_member
from apportion.errors import Code, Refused
from apportion.member.assignors.builtin import CooperativeSticky, Range
from apportion.member.membership import MembershipState, View
from apportion.topics import Topic, partitions_of
from apportion.wire.batch import decode_batch, encode_batch
from apportion.wire.messages.list_offsets import EARLIEST, LATEST
from tests.client import changes

PATIENT_MS = 60_000
numbers = count()


class CuttableCluster(Cluster):
    """A cluster behind a cable that can be pulled out."""

    out = False

    def _send(
        self, address: tuple[str, int], request: Any, timeout_ms: int, version: int | None
    ) -> Any:
        if self.out:
            raise Disconnected("the cable is out")
        return super()._send(address, request, timeout_ms, version)


@pytest.fixture
def topic(cluster: Cluster) -> Topic:
    return cluster.create_topic(f"topic-{uuid4().hex[:8]}", 4)


@pytest.fixture
def group() -> str:
    return f"group-{uuid4().hex[:8]}"


@pytest.fixture
def membership() -> type[dict[str, Any]]:
    """Makes the settings of one session."""
    return dict


@pytest.fixture
def keeps() -> bool:
    """Whether members keep during a rebalance what stays with them; if not, they give back
    everything.
    """
    return True


@pytest.fixture
def sessions(
    bootstrap: str,
    topic: Topic,
    group: str,
    membership: Callable[..., dict[str, int | str | tuple[CooperativeSticky | Range, ...]]]
    | type[dict[str, Any]],
) -> Iterator[Callable[..., Any]]:
    """Makes running sessions of the group, each with a cable of its own."""
    running = []

    def start(**settings: Any) -> Any:
        session = GroupMembership(
            CuttableCluster(bootstrap),
            new_member(group, **membership(), **settings),
            [topic.name],
        )
        session.start()
        running.append(session)
        return session

    yield start
    for session in running:
        session.leave(timeout_ms=2_000)
        session.cluster.close()


def settled(session: Any, partitions: int) -> View:
    """The session owns that many partitions, all that it was offered, having adopted every target
    on the way.
    """
    while True:
        view = session.wait(
            lambda view: (
                (view.target is not None and view.target != view.owned) or done(view, partitions)
            ),
            PATIENT_MS,
        )
        if done(view, partitions):
            result: View = view
            return result
        assert view.target is not None, view
        assert view.target != view.owned, view
        session.adopt(view.incarnation, view.target)


def done(view: View, partitions: int) -> bool:
    return (
        view.state is MembershipState.STABLE
        and view.target == view.owned
        and len(view.owned) == partitions
    )


def follow(*sessions: Any) -> None:
    """One look at every session: what it is offered it adopts."""
    for session in sessions:
        view = session.status()
        if view.target is not None and view.target != view.owned:
            session.adopt(view.incarnation, view.target)


def settle_together(*sessions: Any, partitions: int) -> None:
    """All sessions follow until each owns that many partitions."""
    for _ in range(2_000):
        follow(*sessions)
        if all(done(session.status(), partitions) for session in sessions):
            return
        sessions[0].wait(lambda view: view.target is not None and view.target != view.owned, 50)
    raise AssertionError([session.status() for session in sessions])


def fill(cluster: Cluster, topic: Topic, each: int) -> None:
    """Every partition holds `each` records more."""
    for partition in partitions_of(topic):
        records = [
            (b"key", b"%s %d" % (str(partition).encode(), next(numbers)), ()) for _ in range(each)
        ]
        cluster.produce(partition, encode_batch(records, timestamp_ms=1_000, compression=3))


def test_a_member_joins_and_owns_everything_only_after_it_adopted(
    sessions: Callable[..., Any], topic: Topic
) -> None:
    session = sessions()
    view = session.wait(lambda view: bool(view.target), PATIENT_MS)
    assert (view.state, view.owned, view.incarnation) == (MembershipState.RECONCILING, (), 1)
    assert session.cluster.resolve_names(view.target) == partitions_of(topic)
    session.adopt(view.incarnation, view.target)
    assert session.status().owned == view.target
    assert [event.what for event in session.history() if event.added] == ["offered", "adopted"]


def test_a_second_member_gets_its_half_when_the_first_one_lets_go(
    sessions: Callable[..., Any], keeps: bool
) -> None:
    first = sessions()
    before = settled(first, 4)
    second = sessions()
    view = first.wait(lambda view: view.target != view.owned, PATIENT_MS)
    assert len(view.target) == (2 if keeps else 0)
    assert set(view.target) < set(before.owned)
    assert (
        not keeps or len(second.wait(lambda view: view.target is not None, PATIENT_MS).target) == 0
    )
    settle_together(first, second, partitions=2)
    held = [*first.status().owned, *second.status().owned]
    assert sorted(held) == sorted(before.owned)


def test_a_member_that_leaves_gives_its_partitions_back(sessions: Callable[..., Any]) -> None:
    first, second = sessions(), sessions()
    settle_together(first, second, partitions=2)
    assert second.leave()
    settled(first, 4)
    assert second.history()[-1].what == "left"


def test_offsets_are_committed_and_read_as_a_member(
    sessions: Callable[..., Any], cluster: Cluster, topic: Topic, group: str
) -> None:
    session = sessions()
    settled(session, 4)
    partitions = partitions_of(topic)
    assert changes.committed_as(session, partitions) == dict.fromkeys(partitions)
    changes.commit_as(session, {partitions[0]: 5, partitions[2]: 7})
    assert changes.committed_as(session, partitions) == {
        partitions[0]: 5,
        partitions[1]: None,
        partitions[2]: 7,
        partitions[3]: None,
    }
    session.leave()
    assert cluster.committed(group, partitions[:1]) == {partitions[0]: 5}
    with pytest.raises(Refused, match="is not in group"):
        changes.commit_as(session, {partitions[0]: 6})


def test_a_commit_by_nobody_is_refused_while_the_group_has_members(
    sessions: Callable[..., Any], cluster: Cluster, topic: Topic, group: str
) -> None:
    settled(sessions(), 4)
    with pytest.raises(Refused) as refusal:
        changes.commit(cluster, group, {partitions_of(topic)[0]: 1})
    assert refusal.value.code is Code.UNKNOWN_MEMBER_ID


def test_a_zombie_can_commit_nothing_and_comes_back_as_a_new_life(
    sessions: Callable[..., Any], topic: Topic
) -> None:
    zombie, heir = sessions(), sessions()
    settle_together(zombie, heir, partitions=2)
    partition = zombie.cluster.resolve_names(zombie.status().owned)[0]
    changes.commit_as(zombie, {partition: 3})
    zombie.cluster.out = True
    settled(heir, 4)
    assert changes.committed_as(heir, [partition]) == {partition: 3}
    changes.commit_as(heir, {partition: 8})
    assert len(zombie.status().owned) == 2  # it still believes
    status = zombie.status()
    zombie.cluster.out = False
    with pytest.raises(Refused) as refusal:
        changes.commit_as(zombie, {partition: 4})
    assert refusal.value.code in (
        Code.UNKNOWN_MEMBER_ID,
        Code.FENCED_MEMBER_EPOCH,
        Code.STALE_MEMBER_EPOCH,
    )
    assert zombie.wait(lambda view: view.incarnation > status.incarnation, PATIENT_MS).owned == ()
    assert [event.revoked for event in zombie.history() if event.what == "lost"] == [status.owned]
    settle_together(zombie, heir, partitions=2)
    assert heir.cluster.committed(heir.settings.group_id, [partition]) == {partition: 8}


def test_a_short_cut_of_the_network_costs_nothing(sessions: Callable[..., Any]) -> None:
    session = sessions()
    before = settled(session, 4)
    session.cluster.out = True
    session.wait(lambda view: False, 1_500)
    session.cluster.out = False
    accepted_ms = before.last_accepted_ms or 0
    after = session.wait(lambda view: view.last_accepted_ms > accepted_ms + 1_500, PATIENT_MS)
    assert (after.incarnation, after.owned, after.state) == (
        1,
        before.owned,
        MembershipState.STABLE,
    )


def test_a_static_member_that_restarts_finds_its_partitions_and_disturbs_nobody(
    sessions: Callable[..., Any],
) -> None:
    other, first = sessions(instance_id="other"), sessions(instance_id="me")
    settle_together(other, first, partitions=2)
    before, mine = other.status(), first.status()
    happened = other.history()
    assert first.leave()
    second = sessions(instance_id="me")
    again = settled(second, 2)
    assert (again.epoch, again.owned) == (mine.epoch, mine.owned)
    assert again.member_id != mine.member_id
    accepted_ms = before.last_accepted_ms or 0
    after = other.wait(lambda view: view.last_accepted_ms > accepted_ms + 1_500, PATIENT_MS)
    assert (after.epoch, after.owned, other.history()) == (before.epoch, before.owned, happened)


def test_a_static_member_whose_host_was_lost_waits_for_its_own_place(
    sessions: Callable[..., Any],
) -> None:
    first = sessions(instance_id="me")
    before = settled(first, 4)
    first.cluster.out = True
    assert settled(sessions(instance_id="me"), 4).owned == before.owned


def test_logs_are_read_in_ranges_of_whole_batches(cluster: Cluster, topic: Topic) -> None:
    for _ in range(3):
        fill(cluster, topic, each=10)
    partition = partitions_of(topic)[1]
    offsets = [
        record.offset
        for batch in cluster.fetch_range(partition, 12, 25)
        for record in decode_batch(batch)
    ]
    assert offsets == list(range(10, 30))
    assert list(cluster.fetch_range(partition, 20, 20)) == []
    assert cluster.list_offsets(partitions_of(topic), EARLIEST) == dict.fromkeys(
        partitions_of(topic), 0
    )
    assert cluster.list_offsets(partitions_of(topic), LATEST) == dict.fromkeys(
        partitions_of(topic), 30
    )
    assert cluster.list_offsets([partition], 1_001) == {partition: -1}


def test_a_range_that_is_not_there_is_an_error_and_never_a_short_answer(
    cluster: Cluster, topic: Topic
) -> None:
    fill(cluster, topic, each=10)
    partition = partitions_of(topic)[0]
    with pytest.raises(
        Refused, match=r"offset 40 of \[40, 50\) is not there; the log holds \[0, 10\)"
    ):
        list(cluster.fetch_range(partition, 40, 50))
    with pytest.raises(Refused, match=r"nothing came at offset 10 of \[5, 20\)"):
        list(cluster.fetch_range(partition, 5, 20, timeout_ms=700))


def test_a_deleted_topic_keeps_nobody_from_fetching_the_others(
    cluster: Cluster, topic: Topic
) -> None:
    fill(cluster, topic, each=2)
    gone = cluster.create_topic(f"{topic.name}-gone", 1)
    others = dict.fromkeys(partitions_of(topic), 0)
    changes.delete_topic(cluster, gone.name)
    # until its metadata are asked for: before, the broker alone knows of it
    while True:
        fetched = cluster.fetch(dict.fromkeys(partitions_of(gone), 0) | others, max_wait_ms=500)
        assert {each for each in fetched if fetched[each].batches} == others.keys()
        if fetched.keys() == others.keys():
            return


def test_a_topic_made_again_under_its_name_is_another_one(cluster: Cluster, topic: Topic) -> None:
    partition = partitions_of(topic)[0]
    changes.delete_topic(cluster, topic.name)
    cluster.metadata.forget_leader(partition)
    with pytest.raises(Refused) as refusal:
        cluster.leader(partition)
    assert refusal.value.code is Code.UNKNOWN_TOPIC_ID
    cluster.metadata.forget_leader(partition)
    with pytest.raises(Refused) as refusal:
        cluster.list_offsets([partition], LATEST, timeout_ms=10_000)
    assert refusal.value.code in (Code.UNKNOWN_TOPIC_ID, Code.UNKNOWN_TOPIC_OR_PARTITION)
    again = cluster.create_topic(topic.name, 1)
    assert again.id != topic.id
    cluster.metadata.forget_leader(partition)
    with pytest.raises(Refused) as refusal:
        cluster.leader(partition)
    assert refusal.value.code is Code.UNKNOWN_TOPIC_ID


def test_a_topic_grows_and_its_new_partitions_are_handed_out(
    sessions: Callable[..., Any], cluster: Cluster, topic: Topic
) -> None:
    session = sessions()
    settled(session, 4)
    assert changes.grow_topic(cluster, topic.name, 6).partitions == 6
    view = settled(session, 6)
    assert session.cluster.resolve_names(view.owned) == partitions_of(topic._replace(partitions=6))
