"""The client-side assignors of simulated members of consumer groups (KIP-848).

Those of the package run as they are. Members with the assignor `unreliable` do everything badly
that the coordinator has to survive, until the faults end: the assignor is late, raises, or answers
what is no assignment, and the member that computes crashes, or installs what it should not.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from random import Random
from typing import Any

from apportion.assign.by_name import ClusterTopics, Given, Subscription
from apportion.member.assignors.builtin import CLIENT_ASSIGNORS
from apportion.member.assignors.interface import (
    Assignor,
    FollowUp,
    MemberFailure,
    VersionedAssignor,
)
from apportion.member.assignors.weighted import LagWeighted
from apportion.sim.actors.unreliable_assignor import LATE_US, UnreliableAssignor
from apportion.sim.actors.wrong_installs import wrong_install
from apportion.sim.kernel.clock import Simulation
from apportion.sim.kernel.settings import NO_LOCAL_ASSIGNOR, UNRELIABLE
from apportion.wire.messages.consumer_group_install_assignment import (
    ConsumerGroupInstallAssignmentRequest,
)
from apportion.wire.messages.consumer_group_prepare_assignment import (
    ConsumerGroupPrepareAssignmentResponse,
)

MEAN_RUN_US = 50_000
OFFERS_NONE = 0.1  # of the processes, those of a client without client-side assignors
INSTALLS_WRONGLY = 0.3
CRASHES = 0.1  # of the members that were told to compute, once they have prepared
NEWEST_VERSION = 2
GIVES_ERROR = 0.1
ASKS_AGAIN = 0.2
ONE_NEVER_ENDS = 0.3  # of the scenarios
LONGEST_FOLLOW_UP_MS = 5_000


class UnreliableLocalAssignor(VersionedAssignor):
    """The same, with versions, metadata, reasons for a new assignment, and errors of its own.

    fails: returns whether it fails now and then.
    """

    name = UNRELIABLE
    minimum_version = 0

    def __init__(self, rng: Random, fails: Callable[[], bool]) -> None:
        self.rng = rng
        self.maximum_version = rng.randint(0, NEWEST_VERSION)
        self._fails = fails
        self._assignor = UnreliableAssignor(rng)

    def delay_us(self) -> int:
        """Return by how much its next answer is late."""
        self._assignor.is_failing = self._fails()
        return self._assignor.delay_us()

    def user_data(self, topics: tuple[str, ...]) -> bytes | None:
        """Return metadata in the newest version."""
        return self.versioned_user_data(topics, self.maximum_version)

    def versioned_user_data(self, topics: tuple[str, ...], version: int) -> bytes | None:
        """Return metadata that differ each time, as measured values do."""
        return self.rng.choice((None, bytes((version,)) + self.rng.randbytes(3)))

    def assign(self, cluster: ClusterTopics, members: Mapping[str, Subscription]) -> Any:
        """Return an assignment with metadata for some members, and perhaps an error; or fail."""
        self._assignor.is_failing = self._fails()
        answer = self._assignor.assign(cluster, members)
        if answer is None:
            return None
        error = self.rng.randint(1, 127) if self.rng.random() < GIVES_ERROR else 0
        return {
            member: replace(
                given, user_data=self.rng.choice((None, self.rng.randbytes(2))), error=error
            )
            for member, given in answer.items()
        }

    def on_assignment(self, given: Given, generation: int) -> FollowUp | None:
        """Ask for another assignment at times, at once or later."""
        if not self._fails() or self.rng.random() >= ASKS_AGAIN:
            return None
        after_ms = self.rng.choice((0, self.rng.randint(1, LONGEST_FOLLOW_UP_MS)))
        return FollowUp(0, "a simulated reason", self.rng.randint(1, 127), after_ms)


class ObservedAssignor:
    """A member's assignor. told: the assignment of which it was told last, None before any."""

    def __init__(self, assignor: Any) -> None:
        self.assignor = assignor
        self.told: Given | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.assignor, name)

    def on_assignment(self, given: Given, generation: int) -> FollowUp | MemberFailure | None:
        """Note the assignment, and tell the assignor of it."""
        self.told = given
        reply: FollowUp | MemberFailure | None = self.assignor.on_assignment(given, generation)
        return reply


class ApplicationAssignor:
    """The client-side assignor of that kind of one application, and how its process computes.

    observed: that of the present process; None if it has none.
    """

    def __init__(self, simulation: Simulation, name: str, kind: str) -> None:
        self._simulation = simulation
        self._kind = kind
        self._rng = simulation.random_stream(f"local assignor of {name}")
        self._prepared = ConsumerGroupPrepareAssignmentResponse()
        # Of one stream, so that it holds for all members of a scenario.
        self._one_never_ends = (
            self._kind == UNRELIABLE
            and simulation.random_stream("local assignors").random() < ONE_NEVER_ENDS
        )
        self.observed: ObservedAssignor | None = None

    def _fails(self) -> bool:
        """Return whether the process does badly now and then."""
        is_disturbed = self._simulation.now_us < self._simulation.scenario.duration_ms * 1_000
        return self._kind == UNRELIABLE and is_disturbed

    def start(self, *, is_offered: bool) -> tuple[Assignor, ...]:
        """Return the assignors of the member of a new process.

        is_offered: whether its protocol is the consumer protocol.
        """
        self.observed = None
        if self._kind == NO_LOCAL_ASSIGNOR or not is_offered:
            return ()
        if self._fails() and self._rng.random() < OFFERS_NONE:
            return ()
        self.observed = ObservedAssignor(self._new_assignor())
        return (self.observed,)

    def _new_assignor(self) -> Any:
        if self._kind == UNRELIABLE:
            return UnreliableLocalAssignor(self._rng, self._fails)
        return LagWeighted(1) if self._kind == LagWeighted.name else CLIENT_ASSIGNORS[self._kind]()

    def run_us(self, member_id: str, members: Collection[str]) -> int:
        """Return how long the assignor runs this time, on the member of that id.

        In some scenarios one member of the group is always too late, also after the faults: others
        have to compute.
        """
        if self._one_never_ends and len(members) > 1 and member_id == min(members):
            return LATE_US
        run_us = 1 + int(self._rng.expovariate(1.0) * MEAN_RUN_US)
        assignor = None if self.observed is None else self.observed.assignor
        if isinstance(assignor, UnreliableLocalAssignor):
            run_us += assignor.delay_us()
        return run_us

    def crashes(self) -> bool:
        """Return whether the process dies before it installs what it computes."""
        return self._fails() and self._rng.random() < CRASHES

    def note_prepared(self, prepared: ConsumerGroupPrepareAssignmentResponse) -> None:
        """Note what the member was told of its group."""
        self._prepared = prepared

    def as_sent(
        self, request: ConsumerGroupInstallAssignmentRequest
    ) -> ConsumerGroupInstallAssignmentRequest:
        """Return what the process installs: what its member has computed, or what is wrong."""
        if self._fails() and self._rng.random() < INSTALLS_WRONGLY:
            return wrong_install(self._rng, request, self._prepared)
        return request
