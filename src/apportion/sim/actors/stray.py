"""A query whose sink is not that of the workers' group: it must be refused before it joins."""

from apportion.member.batch.sinks import AnotherSink
from apportion.sim.actors.application import Application
from apportion.sim.actors.worker import Worker, immediately
from apportion.sim.kernel.clock import Script


class Stray(Worker):
    """One query with a sink of its own. It ends when it has been refused."""

    sinks = ("another sink",)

    def join(self) -> None:
        """Do not join yet: the rule decides when."""

    def join_group(self) -> Script:
        """Let the member join."""
        Application.join(self)
        return immediately(None)

    def script(self) -> Script:
        """Run as a worker until the query is refused."""
        try:
            yield from super().script()
        except AnotherSink as refused:
            self.simulation.write_trace(self.name, f"is refused: {refused}")
            self.call_later(1, self.stop)
