"""The simulated cluster: broker, applications and their checker, and how they start and stop."""

from typing import TypeVar

from apportion.coord.group_settings import OWN_SETTINGS
from apportion.sim.actors.admin import OffsetMonitor, RecordProducer, TopicAdmin, topic_name
from apportion.sim.actors.application import Application
from apportion.sim.actors.broker import BrokerProcess
from apportion.sim.actors.protocols import ProtocolPair, draw_protocols
from apportion.sim.actors.reader import MAX_POLL_RECORDS, Reader
from apportion.sim.actors.sink import Sink
from apportion.sim.actors.stray import StrayConsumer, StrayQuery
from apportion.sim.actors.worker import Worker, start_position
from apportion.sim.checks.checker import InvariantChecker
from apportion.sim.kernel.clock import Simulation
from apportion.sim.kernel.network import DOWN, UP
from apportion.sim.streams.process import StreamsProcess
from apportion.sim.streams.task_checker import TaskChecker
from apportion.sim.streams.word_count import topologies
from apportion.streams.topology import Topology
from apportion.wire.messages.list_offsets import EARLIEST

A = TypeVar("A", bound=Application)
EVERY_TOPIC = "t.*"
"""The expression that matches every topic of the simulation, and no internal one."""


class SimulatedCluster:
    """All actors of one simulation. No process runs before `start`."""

    def __init__(self, simulation: Simulation) -> None:
        """Create the broker, the clients and the checker of the simulation's scenario."""
        scenario = simulation.scenario
        self.simulation = simulation
        self.sink = Sink(first_offset=0 if start_position(scenario) == EARLIEST else None)
        self.checker = InvariantChecker(simulation, {Worker.group: self.sink})
        self.broker = BrokerProcess(simulation, self.checker)
        self.checker.attach_broker(self.broker)
        self.topic_admin = TopicAdmin(simulation, self.broker)
        self.producer = RecordProducer(simulation, self.broker)
        groups = (
            Worker.group,
            Reader.group,
            *((StreamsProcess.group,) if scenario.streams else ()),
        )
        self.offset_monitor = OffsetMonitor(simulation, self.broker, groups)
        self.names = [topic_name(index) for index in range(scenario.topics)]
        self.applications: list[Application] = []
        self._topologies = topologies(scenario.topics)
        self.task_checker = TaskChecker(self.broker, self._topologies[0])
        self._strays = 0
        self._protocols = draw_protocols(scenario)
        for index in range(scenario.members):
            self._add_application(index)

    def _add_application(self, index: int) -> None:
        """Add the application of that number: workers first, then readers, then Streams."""
        scenario, protocols = self.simulation.scenario, self._protocols[index]
        workers = scenario.workers
        if index >= workers + scenario.readers:
            number = index - workers - scenario.readers
            process = self._create(StreamsProcess, f"streams{number}", protocols, index)
            standbys = self.simulation.random_stream("standbys").choice((0, 1))
            process.attach(self.task_checker.topology, standbys, self.task_checker.check_change)
            self.task_checker.processes.append(process)
            self.applications.append(process)
        elif index < workers:
            worker = self._create(Worker, f"worker{index}", protocols, index)
            worker.attach_sink(self.sink, self.checker.offsets.first)
            self.applications.append(worker)
        else:
            reader = self._create(Reader, f"reader{index - workers}", protocols, index)
            self.applications.append(reader)

    def _create(
        self, kind: type[A], name: str, protocols: ProtocolPair, index: int | None = None
    ) -> A:
        """Return a new application of that kind, which the checker knows.

        index: its number, by which it is static; None for one beside those of the scenario.
        """
        is_static = index is not None and index < self.simulation.scenario.statics
        application = kind(
            self.simulation,
            name,
            self.broker,
            tuple(self.names),
            is_static,
            self.checker,
            protocols,
        )
        self.checker.owners[name] = application
        return application

    def start(self) -> None:
        """Start the broker, create the topics, and start the applications in turn."""
        self.broker.start()
        for name in self.names:
            self.topic_admin.create(name, self.simulation.scenario.partitions)
        self.simulation.call_later(50_000, self.producer.start)
        self.simulation.call_later(60_000, self.offset_monitor.start)
        rng = self.simulation.random_stream("opening")
        for application in self.applications:
            self.simulation.call_later(
                rng.randint(0, 3_000_000),
                self._start_if_current,
                application,
                application.incarnation,
            )

    def start_stray(self, kind: type[StrayQuery | StrayConsumer]) -> None:
        """Start a query with another sink, or a plain consumer, in the workers' group.

        Does nothing unless a fetched offset has shown that the group has a sink.
        """
        worker = next((each for each in self.applications if isinstance(each, Worker)), None)
        if worker is None or not self.checker.offsets.is_shown(Worker.group):
            return
        stray = self._create(kind, f"stray{self._strays}", worker.protocols)
        if isinstance(stray, StrayQuery):
            stray.attach_sink(Sink(), {})
        self._strays += 1
        stray.start()

    def application(self, number: int) -> Application:
        """Return the application of that number, modulo their count."""
        return self.applications[number % len(self.applications)]

    def crash_broker(self, tear_bytes: int | None, resets_connections: bool) -> None:
        """Crash the broker, after a check of its logs."""
        # The log is all that the next process has: it must hold the state at this very moment.
        self.checker.before_crash()
        self.broker.crash(tear_bytes, resets_connections)

    def start_broker(self) -> None:
        """Start the broker if it is down."""
        if not self.broker.is_up:
            self.broker.start()

    def restart(self, application: Application, away_ms: int) -> None:
        """Stop the application in order, and start it again after `away_ms`."""
        if application.is_up:
            application.deliver(application.incarnation, application.stop)
            self.start_later(application, away_ms)

    def switch(self, application: Application, away_ms: int) -> None:
        """Restart the application with its other protocol."""
        application.next_protocol_choice = application.protocols.other_than(
            application.protocol_choice
        )
        self.restart(application, away_ms)

    def start_later(self, application: Application, away_ms: int) -> None:
        """Start a new process of the application after `away_ms`, once the old one has ended."""
        self.simulation.call_later(
            max(1, away_ms) * 1_000, self._start_if_current, application, application.incarnation
        )

    def _start_if_current(self, application: Application, incarnation: int) -> None:
        """Start the application again, unless that has happened since it was planned."""
        if application.incarnation != incarnation:
            return  # it has been started meanwhile
        waits_for_topics = isinstance(application, StreamsProcess) and not self.topic_admin.is_idle
        if application.is_up or waits_for_topics:
            self.start_later(application, 100)  # it is still stopping, or paused
        else:
            application.start()

    def change_topology(self) -> Topology:
        """Choose another topology for the Streams application; its processes follow one by one."""
        before = self.task_checker.topology
        self.task_checker.topology = next(each for each in self._topologies if each != before)
        return self.task_checker.topology

    def add_partitions(self) -> None:
        """Add a partition to every topic.

        An operator may do so to make a classic group rebalance.
        """
        self.simulation.write_trace("world", "every topic gets a partition")
        for name in self.names:
            self.topic_admin.add_partitions(name, 1)

    def end_faults(self) -> None:
        """End every fault of the scenario.

        All processes run at full speed, all links are healed, and all subscribe to all topics.
        """
        self.simulation.write_trace("world", "the faults are over")
        self.start_broker()
        self.broker.resume(self.broker.incarnation)
        self.broker.flushes_to_refuse = 0
        self.broker.crash_in_flush = None
        if any(fault.kind == "alter-group" for fault in self.simulation.scenario.faults):
            for group in (Worker.group, Reader.group):
                self.topic_admin.alter_group(group, dict.fromkeys(OWN_SETTINGS))
        for application in self.applications:
            for way in (UP, DOWN):
                application.link.set_cut(way, False)
            application.link.answers_to_lose = 0
            application.link.joins_to_lose = 0
            application.slow_until_us = 0
            application.resume(application.incarnation)
            # All topics, so that `all-is-read` and `sink-once` can be asked of every partition.
            if isinstance(application, Reader) and application.expression:
                application.subscribe((), EVERY_TOPIC)
            else:
                application.subscribe(tuple(self.names))
            if isinstance(application, StreamsProcess) and not application.stays_with(
                self.task_checker.topology
            ):
                application.change_topology(self.task_checker.topology)
            if isinstance(application, Worker):
                application.limit = None
            if isinstance(application, Reader):
                application.max_poll_records = MAX_POLL_RECORDS
            if not application.is_up:
                self._start_if_current(application, application.incarnation)
