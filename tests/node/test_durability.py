"""The law of the node: whatever was acknowledged survives any crash, and nobody is told of anything
that may not.
"""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from apportion.errors import Code
from apportion.wire.batch import decode_batch, split_batches
from tests.message_texts import request_of
from tests.node import kit
from tests.node.group_requests import beat, commit

PARTITIONS = 2
GROUPS = ("g", "h")

steps = st.one_of(
    st.tuples(st.just("produce"), st.integers(0, PARTITIONS - 1), st.integers(1, 3)),
    st.tuples(st.just("commit"), st.sampled_from(GROUPS), st.integers(0, 99)),
    st.tuples(st.just("read"), st.sampled_from(GROUPS), st.integers(0, PARTITIONS - 1)),
    st.tuples(st.just("flush"), st.none(), st.none()),
    st.tuples(st.just("fail"), st.none(), st.none()),
    st.tuples(st.just("crash"), st.none(), st.sampled_from([None, 0, 1, 50, 10_000])),
)


class DurabilityModel:
    """A broker's lives, what its clients asked in the present one, and what they were told in
    any.
    """

    def __init__(self) -> None:
        self.kit = kit
        defaults: dict[str, Any] = {"log.segment.bytes": 400}
        self.driver = kit.NodeDriver(**defaults)
        self.driver.create("t", PARTITIONS)
        self.sent = 0
        self.acknowledged: dict[Any, Any] = {}  # (partition, offset) -> value
        self.asked_produce: dict[int, tuple[int, list[bytes]]] = {}  # ticket -> partition, values
        self.asked_commit: dict[int, list[int]] = {}  # ticket -> group, offset
        self.asked_read: dict[int, int] = {}  # ticket -> partition
        # every offset asked for, in order, and whether it was acknowledged
        self.commits: dict[str, list[list[int]]] = {group: [] for group in GROUPS}

    def produce(self, partition: int, count: int) -> None:
        values = [b"%d" % (self.sent + n) for n in range(count)]
        self.sent += count
        ticket = self.driver.ask(self.kit.produce("t", self.kit.batch(*values), partition), 12)
        self.asked_produce[ticket] = partition, values

    def commit(self, group: str, offset: int) -> None:
        ticket = self.driver.ask(commit(group, offset), 9)
        entry = [offset, False]
        self.commits[group].append(entry)
        self.asked_commit[ticket] = entry

    def read(self, group: str, partition: int) -> None:
        """Whatever a reader is shown now must be there for ever, so it counts as acknowledged."""
        self.asked_read[self.driver.ask(self.kit.fetch("t", partition=partition), 12)] = partition

    def note_records(self, partition: int, answer: Any) -> None:
        if answer.error_code == Code.KAFKA_STORAGE_ERROR:
            return
        for view in split_batches(answer.responses[0].partitions[0].records):
            for record in decode_batch(view):
                position = partition, record.offset
                assert self.acknowledged.setdefault(position, record.value) == record.value

    def hear(self) -> None:
        """What the clients were told since the last time."""
        for ticket in [each for each in self.asked_produce if each in self.driver.answers]:
            partition, values = self.asked_produce.pop(ticket)
            response = self.driver.answers[ticket].responses[0].partition_responses[0]
            if response.error_code == Code.NONE:
                for n, value in enumerate(values):
                    assert (
                        self.acknowledged.setdefault((partition, response.base_offset + n), value)
                        == value
                    )
        for ticket in [each for each in self.asked_commit if each in self.driver.answers]:
            entry = self.asked_commit.pop(ticket)
            entry[1] = self.driver.answers[ticket].topics[0].partitions[0].error_code == Code.NONE

        for ticket in [each for each in self.asked_read if each in self.driver.answers]:
            self.note_records(self.asked_read.pop(ticket), self.driver.answers[ticket])

    def act(self, step: str, first: int | str | None, second: int | None) -> None:
        if step in ("produce", "commit", "read"):
            getattr(self, step)(first, second)
        elif step == "crash":
            self.hear()
            self.driver = self.driver.crash(second)
            self.asked_produce.clear()
            self.asked_commit.clear()
            self.asked_read.clear()
        elif self.driver.pending:
            self.driver.flush_once() if step == "flush" else self.driver.fail_flush()
        self.hear()

    def check(self) -> None:
        """After one more crash everything that anybody was told is there."""
        self.driver = self.driver.crash()
        for partition in range(PARTITIONS):
            stored: dict[Any, Any] = {}
            answer = self.driver.call(
                self.kit.fetch("t", partition=partition, partition_max_bytes=1 << 20), 12
            )
            offset = 0
            while views := list(split_batches(answer.responses[0].partitions[0].records)):
                for view in views:
                    stored |= {record.offset: record.value for record in decode_batch(view)}
                offset = max(stored) + 1
                answer = self.driver.call(self.kit.fetch("t", offset, partition), 12)
            expected = {
                at: value for (where, at), value in self.acknowledged.items() if where == partition
            }
            assert expected.items() <= stored.items()
            assert sorted(stored) == list(range(len(stored)))
        for group, asked in self.commits.items():
            fetch = request_of(f"OffsetFetch groups=[group_id={group} topics=null]")
            topics = self.driver.call(fetch, 9).groups[0].topics
            last = topics[0].partitions[0].committed_offset if topics else None
            confirmed = [n for n, (_, acknowledged) in enumerate(asked) if acknowledged]
            possible = [offset for offset, _ in asked[confirmed[-1] if confirmed else 0 :]] + (
                [] if confirmed else [None]
            )
            assert last in possible


@settings(max_examples=150, deadline=None)
@given(st.lists(steps, max_size=30))
def test_nothing_that_was_acknowledged_is_ever_lost(
    history: list[tuple[str, int | str | None, int | None]],
) -> None:
    model = DurabilityModel()
    for step in history:
        model.act(*step)
    model.check()


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.sampled_from(["join", "leave", "crash", "time"])),
        max_size=15,
    )
)
def test_members_that_were_let_in_are_in_after_a_crash(history: list[tuple[str, str]]) -> None:
    driver = kit.NodeDriver()
    driver.create("t", 4)
    epochs: dict[str, int] = {}
    for member, step in history:
        if step == "crash":
            driver = driver.crash()
        elif step == "time":
            driver.sleep(500)
        else:
            epoch = {"join": epochs.get(member, 0), "leave": -1}[step]
            answer = driver.call(beat("g", member, epoch))
            if answer.error_code == Code.NONE:
                epochs[member] = answer.member_epoch
            else:
                assert member not in epochs
                assert answer.error_code in (Code.UNKNOWN_MEMBER_ID, Code.GROUP_ID_NOT_FOUND)
            if step == "leave":
                epochs.pop(member, None)
    driver = driver.crash()
    for member, epoch in epochs.items():
        assert driver.call(beat("g", member, epoch)).error_code == Code.NONE
