"""A process that runs a script against the broker, and the effects that every script may yield."""

from typing import Any, NamedTuple

from apportion.sim.kernel.clock import Script, ScriptRunner, SimulatedProcess, Simulation
from apportion.sim.kernel.network import BrokerHost, Link, RequestChannel

REQUEST_TIMEOUT_MS = 2_500


class SendRequest(NamedTuple):
    """Effect: send a request to the broker. Its result is the answer, or None if none will come."""

    body: Any
    version: int
    timeout_ms: int = REQUEST_TIMEOUT_MS


class Sleep(NamedTuple):
    """Effect: let simulated time pass."""

    duration_ms: int


class Client(SimulatedProcess):
    """A process with a link to the broker and a script to run."""

    def __init__(
        self, simulation: Simulation, name: str, broker: BrokerHost, *, key: str | None = None
    ) -> None:
        super().__init__(simulation, name, key)
        self.broker = broker
        self.link = Link(simulation, self.key)
        self._runner: ScriptRunner | None = None
        self.interruptions = 0  # see `MembershipSnapshot`

    @property
    def is_working(self) -> bool:
        """Return whether the script of this incarnation is running."""
        return self._runner is not None and not self._runner.is_finished

    def script(self) -> Script:
        """Return the work of the process in one incarnation."""
        raise NotImplementedError

    def start(self) -> None:
        """Start the process and its script."""
        self.start_incarnation()
        self.start_script()

    def start_script(self) -> None:
        """Start the script on a channel of its own."""
        self.work_channel = RequestChannel(self, self.link, self.broker)
        self._runner = ScriptRunner(self.script(), self.perform_effect)
        self._runner.resume(0)

    def cancel_script(self) -> None:
        """Stop the script where it is."""
        runner, self._runner = self._runner, None
        if runner is not None:
            runner.cancel()

    def perform_effect(self, runner: ScriptRunner, effect: Any, turn: int) -> None:
        """Start the request or wait that a client's script yielded; resume it with the result."""
        self.perform_on(self.work_channel, runner, effect, turn)

    def perform_on(
        self, channel: RequestChannel, runner: ScriptRunner, effect: Any, turn: int
    ) -> None:
        """Do as `perform_effect`, with the requests over this channel."""
        if type(effect) is SendRequest:
            channel.send(
                effect.body,
                effect.version,
                effect.timeout_ms,
                lambda answer: runner.resume(turn, answer),
            )
        else:
            assert type(effect) is Sleep
            self.call_later(effect.duration_ms * 1000, runner.resume, turn)
