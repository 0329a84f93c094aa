"""An application that reads record by record, as a plain consumer does: positions in memory, commits now and then.

It promises each record at least once. What it lets go of it commits first, and it says so to the coordinator only then.
"""

from apportion.errors import Refused
from apportion.member.batch.plan import EARLIEST, LATEST
from apportion.member.membership import Adopted, Polled
from apportion.sim.actors.member import Application, has_news
from apportion.sim.actors.requests import News, NoAnswer, Pause, commit, committed, offsets_at, topics_of
from apportion.sim.kernel.clock import Story
from apportion.topics import TopicId, TopicIdPartition

IDLE_MS = 500


class Reader(Application):
    """One consumer. All readers are one group."""

    group = "readers"

    def story(self) -> Story:
        """Poll, for as long as the process lives."""
        self._names: dict[TopicId, str] = {}
        self._positions: dict[TopicIdPartition, int] = {}
        self._committed: dict[TopicIdPartition, int] = {}
        self._life = 0
        while True:
            self.tell(Polled())
            try:
                yield from self._poll()
            except (Refused, NoAnswer):
                yield Pause(200)
            yield News(IDLE_MS + self.work_ms(self.world.scenario.batch_ms), has_news)

    def _poll(self) -> Story:
        view = self.member.view()
        if view.incarnation != self._life:
            self._positions, self._committed, self._life = {}, {}, view.incarnation
            self.takes(self._life, {})
        if view.epoch <= 0 or view.target is None:
            return
        if view.target != view.owned:
            yield from self._follow()
        yield from self._advance()

    def _follow(self) -> Story:
        """What the coordinator took away is committed and let go of; what it gave is begun where the group stands."""
        view = self.member.view()
        assert view.target is not None
        life, target = view.incarnation, view.target
        unknown = tuple(dict.fromkeys(each.topic_id for each in target if each.topic_id not in self._names))
        for topic in (yield from topics_of(self, unknown)):
            self._names[topic.id] = topic.name
        wanted = [TopicIdPartition(self._names[each.topic_id], *each) for each in target if each.topic_id in self._names]
        if any(place not in wanted for place in self._positions):
            yield Pause(self.work_ms(100))
            yield from self._try_to_commit()
        kept = {place: at for place, at in self._positions.items() if place in wanted}
        self._positions = kept
        self.takes(life, dict.fromkeys(kept))
        self.tell(Adopted(life, target))
        now = self.member.view()
        if (now.incarnation, now.owned) != (life, target):
            return  # the group has changed its mind
        gained = [place for place in wanted if place not in kept]
        self.takes(life, dict.fromkeys(wanted))
        found = yield from committed(self, gained, life)
        starts = yield from offsets_at(self, [place for place in gained if found[place] is None], EARLIEST)
        for place in gained:
            if place in self.hand[1]:
                self._positions[place] = starts[place] if found[place] is None else found[place]

    def _advance(self) -> Story:
        """Everything that is there now is read, and now and then committed."""
        for place in [place for place in self.hand[1] if place not in self._positions]:
            found = yield from committed(self, [place], self._life)  # an earlier attempt was broken off
            self._positions[place] = found[place] or 0
        ends = yield from offsets_at(self, list(self._positions), LATEST)
        before, self._positions = self._positions, {place: max(at, ends.get(place, at)) for place, at in self._positions.items()}
        if self._positions == before or self.dice.random() < 0.5:
            yield from self._try_to_commit()

    def _try_to_commit(self) -> Story:
        """The group has heard where this consumer stands, unless it may not say so any more."""
        new = {place: at for place, at in self._positions.items() if self._committed.get(place) != at}
        try:
            yield from commit(self, new, self._life)
            self._committed.update(new)
        except Refused:
            return
