"""A process that asks the broker: one connection for its work, and the work as a story."""

from typing import Any

from apportion.sim.actors.broker import Broker
from apportion.sim.actors.requests import Pause, Request
from apportion.sim.kernel.clock import Process, Story, Telling, World
from apportion.sim.kernel.network import Line, Link

REQUEST_TIMEOUT_MS = 2_500


class Client(Process):
    """A process with a link to the broker and something to do."""

    def __init__(self, world: World, name: str, broker: Broker) -> None:
        super().__init__(world, name)
        self.broker = broker
        self.link = Link(world, name)
        self._telling: Telling | None = None

    @property
    def is_working(self) -> bool:
        """The story of this life is being told."""
        return self._telling is not None and not self._telling.is_over

    def story(self) -> Story:
        """What it does in this life."""
        raise NotImplementedError

    def begins_work(self) -> None:
        """The story has begun."""
        self.work = Line(self, self.link, self.broker)
        self._telling = Telling(self.story(), self.question)
        self._telling.goes_on(0)

    def breaks_off(self) -> None:
        """The story ends where it is."""
        telling, self._telling = self._telling, None
        if telling is not None:
            telling.breaks_off()

    def question(self, telling: Telling, question: Any, turn: int) -> None:
        """What a story asks is on its way to whoever knows."""
        if type(question) is Request:
            self.work.ask(question.body, question.version, REQUEST_TIMEOUT_MS, lambda answer: telling.goes_on(turn, answer))
        else:
            assert type(question) is Pause
            self.later(question.span_ms * 1000, telling.goes_on, turn)
