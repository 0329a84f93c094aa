"""A query that does not belong in the workers' group: it writes to another sink, and is to be refused before it joins."""

from apportion.member.batch.sinks import AnotherSink
from apportion.sim.actors.member import Application
from apportion.sim.actors.worker import Worker, at_once
from apportion.sim.kernel.clock import Story


class Stray(Worker):
    """One query with a sink of its own. It begins once the group has its sink, and ends when it has been refused."""

    sinks = ("another sink",)

    def joins(self) -> None:
        """Not yet: the rule says when."""

    def enters(self) -> Story:
        """The member joins."""
        Application.joins(self)
        return at_once(None)

    def story(self) -> Story:
        """As a worker's, which ends with the refusal."""
        try:
            yield from super().story()
        except AnotherSink as refused:
            self.world.say(self.name, f"is refused: {refused}")
            self.later(1, self.stop)
