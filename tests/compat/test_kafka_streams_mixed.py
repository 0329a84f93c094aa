"""Instances of Kafka Streams and Python processes in one application: whoever leads, every task is
run and every count is right.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.compat.java.history import until
from tests.compat.streams.application import Application, repeats
from tests.compat.streams.program import LEAVES, Instance, Streams
from tests.compat.streams.python_instance import PythonInstance

# kafka-python's, of another module
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture
def python() -> Iterator[Callable[..., PythonInstance]]:
    """A function: a Python instance of the application that is named, which runs until the end of
    the test.
    """
    running = []

    def start(application: Application, name: str, **options: Any) -> PythonInstance:
        running.append(PythonInstance(application, name, **options))
        application.instances.append(running[-1])
        running[-1].start()
        return running[-1]

    yield start
    for each in running:
        each._stopping.set()
        each.join(30)


@pytest.mark.parametrize("first", ["java", "python"])
def test_two_in_java_and_one_in_python_count_together(
    bootstrap: str,
    streams: Streams,
    python: Callable[..., PythonInstance],
    tmp_path: Path,
    first: str,
) -> None:
    application = Application(bootstrap, "words")

    def java(name: str) -> Instance:
        return application.start(streams, name, tmp_path)

    with application.flow():
        leader = java("one") if first == "java" else python(application, "one")
        application.settled(leader)
        others = [java("two"), python(application, "three") if first == "java" else java("three")]
        application.settled(leader, *others)
        snake = leader if first == "python" else others[1]
        seen = len(snake.took)
        until(lambda: len(snake.took) > seen + 50, "the Python instance works")
    ledger = application.counted()
    assert ledger.agrees()
    assert (ledger.repeated, repeats(application.instances)) == ({}, {})
    for each in (leader, *others):
        each.leave()
    assert streams.complaints() == []


@pytest.mark.parametrize("first", ["java", "python"])
def test_a_newer_member_makes_the_group_probe_and_upgrades_when_it_is_alone(
    bootstrap: str,
    streams: Streams,
    python: Callable[..., PythonInstance],
    tmp_path: Path,
    first: str,
) -> None:
    application = Application(bootstrap, "words")
    with application.flow():
        if first == "java":
            old = application.start(streams, "one", tmp_path)
            application.settled(old)
        new = python(application, "two", release="future")
        if first == "python":
            application.settled(new)
            assert new.share.used == 12
            old = application.start(streams, "one", tmp_path)
        application.settled(old, new)
        until(lambda: new.share.used == 11, "the group speaks what all understand")
        assert application.spoken() == {"one": 11, "two": 11}
        old.leave()
        application.settled(new)
        until(lambda: new.share.used == 12, "the group speaks the newest version")
    ledger = application.counted()
    assert ledger.agrees()
    assert (ledger.repeated, repeats(application.instances)) == ({}, {})
    new.leave()
    assert streams.complaints() == []


@pytest.fixture
def launch(
    streams_classpath: Callable[[str], str], tmp_path: Path
) -> Iterator[Callable[..., Streams]]:
    """A function: a JVM of that name for instances of that release."""
    programs = []

    def program(name: str, release: str) -> Streams:
        programs.append(Streams(streams_classpath(release), tmp_path, name))
        return programs[-1]

    yield program
    for each in programs:
        each.end()


@pytest.mark.parametrize("first", ["java", "python"])
def test_with_an_instance_held_at_version_2_all_speak_it_until_it_is_gone(
    bootstrap: str,
    streams: Streams,
    launch: Callable[..., Streams],
    python: Callable[..., PythonInstance],
    tmp_path: Path,
    first: str,
) -> None:
    application = Application(bootstrap, "words")
    held = launch("held", "3.9.1")

    def starts(who: str) -> Instance | PythonInstance:
        if who == "python":
            return python(application, "snake")
        if who == "held":
            return application.start(held, "held", tmp_path, **LEAVES, upgrade_from="1.1")
        return application.start(streams, "newest", tmp_path)

    running = []
    with application.flow():
        for who in (
            ("held", "python", "newest") if first == "java" else ("python", "held", "newest")
        ):
            running.append(starts(who))
            application.settled(*running)
        assert application.spoken() == {"held": 2, "snake": 11, "newest": 11}
        snake = next(each for each in running if isinstance(each, PythonInstance))
        assert snake.share.used == 2
        running.pop(0 if first == "java" else 1).leave()
        application.settled(*running)
        until(lambda: snake.share.used == 11, "all speak the newest version")
    ledger = application.counted()
    assert ledger.agrees()
    for each in running:
        each.leave()
    assert [program.complaints() for program in (streams, held)] == [[], []]
