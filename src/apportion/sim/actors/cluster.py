"""Everybody who takes part in one world, and how they come and go."""

from apportion.member.batch.plan import EARLIEST
from apportion.sim.actors.admin import Clerk, Onlooker, Producer, name_of
from apportion.sim.actors.broker import Broker
from apportion.sim.actors.member import Application
from apportion.sim.actors.protocols import dialects
from apportion.sim.actors.reader import Reader
from apportion.sim.actors.sink import Sink
from apportion.sim.actors.stray import Stray
from apportion.sim.actors.worker import Worker, starting_of
from apportion.sim.checks.checker import Watch
from apportion.sim.kernel.clock import World
from apportion.sim.kernel.network import DOWN, UP


class Stage:
    """One world with everybody in it. Nobody lives before `opens`."""

    def __init__(self, world: World) -> None:
        scenario = world.scenario
        self.world = world
        self.sink = Sink(begins=0 if starting_of(scenario) == EARLIEST else None)
        self.watch = Watch(world, {Worker.group: self.sink})
        self.broker = Broker(world, self.watch)
        self.watch.looks_at(self.broker)
        self.clerk = Clerk(world, self.broker)
        self.producer = Producer(world, self.broker)
        self.onlooker = Onlooker(world, self.broker, (Worker.group, Reader.group))
        self.names = [name_of(index) for index in range(scenario.topics)]
        self.applications: list[Application] = []
        self.strays: list[Stray] = []
        self._dialects = dialects(scenario)
        for index in range(scenario.members):
            self._engage(index)

    def _engage(self, index: int) -> None:
        scenario, is_static = self.world.scenario, index < self.world.scenario.statics
        topics, spoken = tuple(self.names), self._dialects[index]
        if index < scenario.workers:
            worker = Worker(self.world, f"worker{index}", self.broker, topics, is_static, self.watch, spoken)
            worker.writes_to(self.sink, self.watch.offsets.first)
            self.applications.append(worker)
        else:
            self.applications.append(
                Reader(self.world, f"reader{index - scenario.workers}", self.broker, topics, is_static, self.watch, spoken)
            )
        self.watch.applications[self.applications[-1].name] = self.applications[-1]

    def opens(self) -> None:
        """The broker starts, topics are made, and the applications begin one after the other."""
        self.broker.start()
        for name in self.names:
            self.clerk.create(name, self.world.scenario.partitions)
        self.world.after(50_000, self.producer.begin)
        self.world.after(60_000, self.onlooker.begin)
        dice = self.world.dice("opening")
        for each in self.applications:
            self.world.after(dice.randint(0, 3_000_000), self._begins, each, each.life)

    def goes_astray(self) -> None:
        """A query with another sink begins in the workers' group, if that is known to have one."""
        worker = next((each for each in self.applications if isinstance(each, Worker)), None)
        if worker is None or not self.watch.offsets.is_shown(Worker.group):
            return
        name = f"stray{len(self.strays)}"
        stray = Stray(self.world, name, self.broker, tuple(self.names), False, self.watch, worker.dialects)
        stray.writes_to(Sink(), {})
        self.strays.append(stray)
        self.watch.applications[name] = stray
        stray.begin()

    def application(self, number: int) -> Application:
        """The application of that number."""
        return self.applications[number % len(self.applications)]

    def crash_broker(self, tear_bytes: int | None, resets: bool) -> None:
        """The broker is down."""
        self.watch.crashing()
        self.broker.crash(tear_bytes, resets)

    def start_broker(self) -> None:
        """The broker is up."""
        if not self.broker.is_up:
            self.broker.start()

    def restart(self, application: Application, away_ms: int) -> None:
        """The application leaves, and is back after a while."""
        if application.is_up:
            application.hear(application.life, application.stop)
            self.begins_again(application, away_ms)

    def switch(self, application: Application, away_ms: int) -> None:
        """The application leaves, and is back with its other protocol."""
        application.next_dialect = application.dialects.after(application.dialect)
        self.restart(application, away_ms)

    def begins_again(self, application: Application, away_ms: int) -> None:
        """A new process of the application lives after a while, once the old one has ended."""
        self.world.after(max(1, away_ms) * 1_000, self._begins, application, application.life)

    def _begins(self, application: Application, life: int) -> None:
        if application.life != life:
            return  # somebody else has started it
        if application.is_up:
            self.begins_again(application, 100)  # it is still stopping, or stands still
        else:
            application.begin()

    def nudge(self) -> None:
        """Every topic has a partition more, as if an operator had helped a group to look again."""
        self.world.say("world", "every topic gets a partition")
        for name in self.names:
            self.clerk.grow(name, 1)

    def calm_down(self) -> None:
        """No fault lasts: everybody lives, hears and is heard, wants what all want, and works at full speed."""
        self.world.say("world", "the faults are over")
        self.start_broker()
        self.broker.resume(self.broker.life)
        self.broker.refusals = 0
        self.broker.doom = None
        for each in self.applications:
            for way in (UP, DOWN):
                each.link.set_cut(way, False)
            each.link.answers_to_lose = 0
            each.slow_until_us = 0
            each.resume(each.life)
            each.subscribe(tuple(self.names))
            if isinstance(each, Worker):
                each.limit = None
            if not each.is_up:
                self._begins(each, each.life)
