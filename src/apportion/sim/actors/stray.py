"""A query that does not belong in the workers' group: it writes to another sink, and is to be refused before it joins."""

from apportion.member.batch.sinks import AnotherSink
from apportion.sim.actors.member import Application
from apportion.sim.actors.worker import Worker, immediately
from apportion.sim.kernel.clock import Script


class Stray(Worker):
    """One query with a sink of its own. It begins once the group has its sink, and ends when it has been refused."""

    sinks = ("another sink",)

    def join(self) -> None:
        """Not yet: the rule says when."""

    def join_group(self) -> Script:
        """The member joins."""
        Application.join(self)
        return immediately(None)

    def script(self) -> Script:
        """As a worker's, which ends with the refusal."""
        try:
            yield from super().script()
        except AnotherSink as refused:
            self.simulation.write_trace(self.name, f"is refused: {refused}")
            self.call_later(1, self.stop)
