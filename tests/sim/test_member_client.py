"""A simulated process with a member takes its assignor's query with it when it ends."""

from dataclasses import replace
from typing import Any

import pytest

from apportion.member.membership import QueryCluster, Unanswered
from apportion.sim.actors.member_client import MemberClient
from apportion.sim.kernel.client import Sleep
from apportion.sim.kernel.clock import Script, Simulation
from apportion.sim.kernel.network import SentRequest, SimulatedConnection
from apportion.sim.kernel.scenario import Scenario
from apportion.streams.queries import ListStartOffsets
from apportion.topics import TopicPartition
from apportion.wire.messages.metadata import MetadataResponse

SECOND_US = 1_000_000
QUERY = QueryCluster(7, ListStartOffsets((TopicPartition("t", 0),)))


class SilentHost:
    """The broker's end of all connections: it answers when the test says so."""

    def __init__(self) -> None:
        self.received: list[SentRequest] = []
        self.closed: list[SimulatedConnection] = []

    def receive(self, sent: SentRequest) -> None:
        """Keep a request that has arrived."""
        self.received.append(sent)

    def connection_closed(self, connection: SimulatedConnection) -> None:
        """Keep a connection that the process has closed."""
        self.closed.append(connection)

    def answer(self, sent: SentRequest, body: Any) -> None:
        """Answer a request that was received."""
        sent.channel.receive_answer(sent.connection, body)


class Process(MemberClient):
    """A process that only keeps the events for its member, and may end with one."""

    ends_with_an_event = False

    def __init__(self, simulation: Simulation, broker: SilentHost) -> None:
        super().__init__(simulation, "process", broker)
        self.stepped: list[Any] = []

    def script(self) -> Script:
        """Do nothing."""
        while True:
            yield Sleep(60_000)

    def start(self) -> None:
        """Start the process with its connections."""
        self.open_member_channels()
        super().start()

    def step_member(self, event: Any) -> None:
        """Keep an event."""
        self.stepped.append(event)
        if self.ends_with_an_event:
            self.end()

    def end(self) -> None:
        """End the process as its host sees it."""
        self.cancel_script()
        for channel in self.channels:
            channel.close()
        self.end_incarnation()


@pytest.fixture
def simulation() -> Simulation:
    return Simulation(Scenario(seed=1))


def test_an_answer_to_the_query_of_a_process_that_has_ended_steps_no_later_one(
    simulation: Simulation,
) -> None:
    broker = SilentHost()
    process = Process(simulation, broker)
    process.start()
    process.query_cluster(QUERY)
    simulation.run(SECOND_US)
    (sent,) = broker.received
    process.end()
    process.start()
    broker.answer(sent, MetadataResponse())
    simulation.run(20 * SECOND_US)
    assert (process.stepped, broker.closed) == ([], [sent.connection])
    assert broker.received == [sent]


def test_a_query_in_place_of_an_unanswered_one_is_the_only_one_that_is_answered(
    simulation: Simulation,
) -> None:
    broker = SilentHost()
    process = Process(simulation, broker)
    process.start()
    process.query_cluster(QUERY)
    simulation.run(SECOND_US)
    process.query_cluster(replace(QUERY, request_id=8))
    simulation.run(2 * SECOND_US)
    first, second = broker.received
    for sent in (first, second):
        broker.answer(sent, MetadataResponse())
    simulation.run(20 * SECOND_US)
    assert broker.closed == [first.connection]
    (unanswered,) = process.stepped
    assert isinstance(unanswered, Unanswered)
    assert unanswered.request_id == 8


def test_an_answer_may_end_the_process_whose_assignor_has_asked(simulation: Simulation) -> None:
    broker = SilentHost()
    process = Process(simulation, broker)
    process.ends_with_an_event = True
    process.start()
    process.query_cluster(QUERY)
    simulation.run(SECOND_US)
    broker.answer(broker.received[0], MetadataResponse())
    simulation.run(20 * SECOND_US)
    assert (len(process.stepped), process.is_up, len(broker.closed)) == (1, False, 1)
