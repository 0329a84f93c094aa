"""The shutdown hook of a Java process that has started the program.

The process is played here; tests/spark/test_application_stories.py has a real one.
"""

import threading
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JNetworkError  # type: ignore[import-untyped]
from pyspark import SparkContext

from apportion.spark.queries import java_shutdown
from apportion.spark.queries.java_shutdown import ShutdownHook


def test_a_java_process_that_ends_waits_until_the_program_has_stopped() -> None:
    hook = ShutdownHook()
    java = threading.Thread(target=hook.run)
    java.start()
    assert hook.has_begun.wait(5)
    assert java.is_alive()
    hook.is_over.set()
    java.join()


class JavaHooks:
    """The shutdown hooks of a Java process, with what Py4J shows of it."""

    def __init__(self) -> None:
        self.registered: list[Any] = []
        self.problem: Exception | None = None
        manager = SimpleNamespace(
            addShutdownHook=lambda runnable, *_limits: self.registered.append(runnable),
            removeShutdownHook=self._remove,
        )
        hadoop = SimpleNamespace(ShutdownHookManager=SimpleNamespace(get=lambda: manager))
        self._jvm = SimpleNamespace(
            org=SimpleNamespace(
                apache=SimpleNamespace(hadoop=SimpleNamespace(util=hadoop)),
            ),
            java=SimpleNamespace(
                lang=SimpleNamespace(Thread=lambda runnable: SimpleNamespace(run=runnable.run)),
                util=SimpleNamespace(
                    concurrent=SimpleNamespace(TimeUnit=SimpleNamespace(SECONDS=None))
                ),
            ),
        )
        self._gateway = None

    def _remove(self, runnable: Any) -> None:
        if self.problem is not None:
            raise self.problem
        self.registered.remove(runnable)


@pytest.fixture
def java_hooks(monkeypatch: pytest.MonkeyPatch) -> JavaHooks:
    """Those of the Java process that has started this program."""
    hooks = JavaHooks()
    monkeypatch.setenv(java_shutdown.STARTED_BY_JAVA, "1")
    monkeypatch.setattr(java_shutdown, "ensure_callback_server_started", lambda _gateway: None)
    monkeypatch.setattr(SparkContext, "_active_spark_context", hooks)
    return hooks


def test_java_does_not_call_a_program_that_has_ended(java_hooks: JavaHooks) -> None:
    with java_shutdown.JavaShutdown(1) as shutdown:
        assert (len(java_hooks.registered), shutdown.has_begun) == (1, False)
    assert java_hooks.registered == []


@pytest.mark.parametrize("error", [Py4JNetworkError(), ConnectionRefusedError()])
def test_a_java_process_that_is_gone_needs_no_hook_removed(
    java_hooks: JavaHooks, error: Exception
) -> None:
    java_hooks.problem = error
    with java_shutdown.JavaShutdown(1):
        pass


def test_a_hook_that_java_has_called_is_left_to_it(java_hooks: JavaHooks) -> None:
    java_hooks.problem = AssertionError("Java ends already, and removes nothing")
    with java_shutdown.JavaShutdown(1) as shutdown:
        java = threading.Thread(target=java_hooks.registered[0].run)
        java.start()
        while not shutdown.has_begun:
            pass
    java.join()
