"""A simulated query whose sink is not that of its group: it must be refused before it joins."""

from apportion.member.group_claims import AnotherSink
from apportion.sim.actors.worker import Worker
from apportion.sim.kernel.clock import Script


class Stray(Worker):
    """A stray query: one with a sink of its own in the group of another. It ends when refused."""

    sinks = ("another sink",)

    def script(self) -> Script:
        """Run as a worker does, until AnotherSink refuses the query; then stop."""
        try:
            yield from super().script()
        except AnotherSink as refused:
            self.simulation.write_trace(self.name, f"is refused: {refused}")
            # after this script has ended: a script that runs cannot be cancelled
            self.call_later(1, self.stop)
