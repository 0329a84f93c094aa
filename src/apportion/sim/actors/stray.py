"""Simulated members that do not belong in the workers' group: each must be refused before it joins.

A query with another sink is refused by the rule of queries, a plain consumer by that of consumers.
"""

from functools import partial
from typing import Any

from apportion.member.group_claims import AnotherSink
from apportion.member.membership import CoordinatorFound, Leave, SendToCoordinator
from apportion.sim.actors.reader import Reader
from apportion.sim.actors.worker import Worker
from apportion.sim.kernel.clock import Script, ScriptRunner
from apportion.sim.kernel.network import RequestChannel
from apportion.sim.kernel.outcome import LawBroken


class StrayQuery(Worker):
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


class StrayConsumer(Reader):
    """A plain consumer in the workers' group, which ends when its check before the join has failed.

    As in `client.member_requests`, the check runs each time that the coordinator was found, beside
    the polls of the application.
    """

    group = Worker.group

    def step_member(self, event: Any) -> None:
        """Step the consumer's member; check its group first if its coordinator was found."""
        if isinstance(event, CoordinatorFound):
            channel = RequestChannel(self, self.link, self.broker)
            check = ScriptRunner(self._check_before_join(event), partial(self.perform_on, channel))
            check.resume(0)
        else:
            super().step_member(event)

    def _check_before_join(self, found: CoordinatorFound) -> Script:
        event = yield from self.run_rule(self.rule.check_before_join(found))
        if isinstance(event, Leave):
            self.simulation.write_trace(self.name, "is refused before it joins")
        super().step_member(event)

    def _send(self, send: SendToCoordinator) -> None:
        # Every request of a member comes after its join, or is one.
        raise LawBroken(
            "refused-before-join",
            f"{self.name} sends {type(send.request).__name__} to a group that has a sink.",
        )
