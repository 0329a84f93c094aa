"""An application that reads in batches as a Spark query does, through the very rule that the Spark source uses.

`member.batches.Batches` decides; here its questions are put to the simulated broker, its spans are worked off with a checkpoint in
Spark's order (planned, written to the sink, done), and a process that dies in between leaves the checkpoint for the next one.
"""

from collections.abc import Callable, Mapping
from typing import Any

from apportion.errors import Refused
from apportion.machine import Note
from apportion.member.batch import queries as rule
from apportion.member.batch.plan import EARLIEST, LATEST, StartingOffsets
from apportion.member.batch.queries import MembershipSnapshot, NotReady, QueryGenerator
from apportion.member.batch.rule import BatchPlanner
from apportion.member.batch.sinks import NO_REPORT, WriterReport
from apportion.member.batch.span import EMPTY_SPAN, Span, admit
from apportion.member.classic.described import from_described_group
from apportion.member.membership import Adopted, Polled
from apportion.sim.actors.member import Application, has_news
from apportion.sim.actors.requests import (
    GONE,
    News,
    NoAnswer,
    Pause,
    commit,
    described,
    described_classic,
    offsets_at,
    stored,
    topics_of,
)
from apportion.sim.actors.sink import Sink
from apportion.sim.kernel.clock import Story
from apportion.sim.kernel.outcome import LawBroken
from apportion.sim.kernel.scenario import Scenario
from apportion.topics import TopicIdPartition, Topics

IDLE_MS = 1_000
AGAIN_MS = 500


class Checkpoint:
    """What Spark keeps of a query: the span that was planned last, and the one that was done last.

    announced: what its writer has said on this host.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.planned: Span = EMPTY_SPAN
        self.done: Span = EMPTY_SPAN
        self.announced = NO_REPORT


class Worker(Application):
    """One query. All workers are one group and write into one sink."""

    group = "workers"
    sinks = ("the sink",)

    def __init__(self, *facts: Any) -> None:
        super().__init__(*facts)
        self.limit = self.dice.choice((None, None, 3, 50))
        self.is_replaced = True  # the next process is of a new version, with a checkpoint of its own
        self._checkpoints = 0

    def writes_to(self, sink: Sink, first: Mapping[TopicIdPartition, int]) -> None:
        """Rows go to `sink`. first: where the group began to read each place."""
        self._sink, self._first = sink, first

    def story(self) -> Story:
        """One run of the query, until its process ends."""
        if self.is_replaced:
            self.is_replaced = False
            self._checkpoints += 1
            self.checkpoint = Checkpoint(f"{self.name}/{self._checkpoints}")
        checkpoint = self.checkpoint
        self._known = Topics()
        self.batches = BatchPlanner(
            self.topics,
            checkpoint=checkpoint.name,
            starting=StartingOffsets(starting_of(self.world.scenario)),
            fail_on_data_loss=False,  # topics are deleted here; rows that are lost otherwise are seen at the sink
        )
        if checkpoint.planned is not checkpoint.done:
            yield from self._write(checkpoint.planned, life=-1)
        while True:
            self.tell(Polled())
            previous = checkpoint.done
            try:
                following = yield from self._told(self.batches.plan_next(previous, self.limit))
            except (NotReady, Refused, NoAnswer):
                yield Pause(AGAIN_MS)
                continue
            self.takes(*self.batches.held)
            if following == previous:
                yield News(self.trigger_ms, has_news)
                continue
            self._check_continuity(previous, following)
            checkpoint.planned = following
            yield Pause(1)
            yield from self._write(following, life=self.batches.held.incarnation)

    def enters(self) -> Story:
        """The rule lets the member join, which it has done already when its process began."""
        return at_once(None)

    @property
    def trigger_ms(self) -> int:
        """How long the query waits when there was nothing to do."""
        return max(IDLE_MS, self.world.scenario.batch_ms)

    def _write(self, batch: Span, life: int) -> Story:
        """The batch is in the sink, and then done. One that asks is answered with the sink's name."""
        if batch.question_number:
            yield Pause(1 + self.work_ms(20))
            self.checkpoint.announced = WriterReport(self.sinks, has_records=bool(self._sink.fences))
            self.checkpoint.done = batch
            return
        self.takes(life, dict.fromkeys(batch.ranges))
        yield Pause(self.work_ms(self.world.scenario.batch_ms))
        while True:
            fences = self._sink.fences
            admitted = admit(batch, fences, fail_on_data_loss=False)
            yield Pause(1 + self.work_ms(20))
            if self._sink.commit(fences, admitted, self._first):
                break
            self.world.say(self.name, "was beaten to the sink, and tries again")
        self.world.say(self.name, f"wrote {sum(to - lower for lower, to, _ in admitted.values())} rows")
        yield Pause(1)
        self.checkpoint.done = batch

    def _check_continuity(self, previous: Span, following: Span) -> None:
        """A query never goes back behind the end of its own last batch."""
        for place, (start, _) in following.ranges.items():
            stood = previous.end_or_none(place)
            if stood is not None and start < stood:
                raise LawBroken("spans-continue", f"{self.name} had read {place} up to {stood} and starts again at {start}.")

    def _told(self, asking: QueryGenerator[Any]) -> Story:
        """What the rule comes to when each of its questions is answered."""
        try:
            ask = next(asking)
            while True:
                try:
                    answer = yield from ANSWERS[type(ask)](self, ask)
                except (Refused, NoAnswer) as error:
                    ask = asking.throw(error)
                else:
                    ask = asking.send(answer)
        except StopIteration as end:
            return end.value

    def _named(self, ask: rule.ResolveTopicNames) -> Story:
        unknown = tuple(dict.fromkeys(each.topic_id for each in ask.partitions if self._known.with_id(each.topic_id) is None))
        if unknown:
            self._learn((yield from topics_of(self, unknown)))
        named = ((self._known.with_id(each.topic_id), each.partition) for each in ask.partitions)
        return tuple(sorted(TopicIdPartition(topic.name, topic.id, number) for topic, number in named if topic is not None))

    def _existing(self, names: tuple[str, ...]) -> Story:
        topics = yield from topics_of(self, names)
        self._learn(topics)
        return topics

    def _subscribed(self) -> Story:
        topics = yield from self._existing(self.topics)
        return {topic.name: topic for topic in topics}

    def _share(self) -> Story:
        """As the Spark source asks: a classic member may be in a KIP-848 group, while that changes over."""
        if self.speaks_classic:
            group = yield from described_classic(self)
            if group.group_state != GONE:
                return from_described_group(group, (yield from self._subscribed()))
        return (yield from described(self))

    def _noted(self, note: Note) -> Story:
        self.world.say(self.name, note.text)
        return at_once(None)

    def _learn(self, topics: Topics) -> None:
        for topic in topics:
            self._known = self._known.adding(topic)

    def _adopt(self, ask: rule.AdoptAssignment) -> Story:
        """What was taken away is out of the owner's hands, and only then does the member hear of it."""
        self.takes(*self.batches.held)
        self.tell(Adopted(ask.incarnation, ask.target))
        return at_once(self.member.view())


def starting_of(scenario: Scenario) -> int:
    """Where workers begin to read what the group never read: a fact of the seed."""
    return EARLIEST if scenario.seed % 4 else LATEST


def at_once(answer: Any) -> Story:
    """An answer that nobody has to be asked for."""
    yield from ()
    return answer


ANSWERS: dict[type, Callable[[Worker, Any], Story]] = {
    rule.ReadWriterReport: lambda worker, ask: at_once(worker.checkpoint.announced),
    rule.StartMembership: lambda worker, ask: worker.enters(),
    rule.EndMembership: lambda worker, ask: at_once(None),  # nobody adopts a group here
    rule.ReadMembership: lambda worker, ask: at_once(MembershipSnapshot(worker.member.view(), worker.now().mono_ms)),
    rule.SessionTimeout: lambda worker, ask: at_once(worker.world.scenario.session_ms),
    rule.SubscribedTopics: lambda worker, ask: worker._subscribed(),
    rule.ExistingTopics: lambda worker, ask: worker._existing(ask.names),
    rule.ResolveTopicNames: lambda worker, ask: worker._named(ask),
    rule.AdoptAssignment: lambda worker, ask: worker._adopt(ask),
    rule.FetchCommitted: lambda worker, ask: stored(worker, ask.places, ask.incarnation),
    rule.CommitOffsets: lambda worker, ask: commit(worker, ask.offsets, ask.incarnation, ask.metadata),
    rule.LogStartOffsets: lambda worker, ask: offsets_at(worker, ask.places, EARLIEST),
    rule.LogEndOffsets: lambda worker, ask: offsets_at(worker, ask.places, LATEST),
    rule.DescribeAssignment: lambda worker, ask: worker._share(),
    rule.ListMembers: lambda worker, ask: at_once(()),  # those who are in the group have joined before they asked, all for one sink
    Note: lambda worker, ask: worker._noted(ask),
}
"""How each question of the rule is answered here."""
