"""The end of Spark's Java process where it is the parent of the program, as with spark-submit.

There SIGTERM goes to the Java process, which would end its queries at once and tell the program
nothing. So `run` registers a shutdown hook before Spark's own, which holds the shutdown up until
the queries have stopped.
"""

import os
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar, Self

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import SparkContext
from pyspark.java_gateway import ensure_callback_server_started

if TYPE_CHECKING:
    from collections.abc import Callable

STARTED_BY_JAVA = "PYSPARK_GATEWAY_PORT"
"""The variable of the environment by which a Java parent says where it listens."""
PRIORITY = 1000  # hooks run in falling order, and Spark's have 50 at the most
GRACE_S = 15  # for the leave, after the batch


class JavaShutdown:
    """A shutdown hook of the Java process while `run` waits, where that process is the parent."""

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s, self._hook = timeout_s, ShutdownHook()
        self._remove: Callable[[], object] = lambda: None  # the hook, in Java

    def __enter__(self) -> Self:
        context: Any = SparkContext._active_spark_context
        if STARTED_BY_JAVA in os.environ and context is not None:
            ensure_callback_server_started(context._gateway)  # type: ignore[no-untyped-call]
            jvm = context._jvm
            hooks = jvm.org.apache.hadoop.util.ShutdownHookManager.get()
            seconds = jvm.java.util.concurrent.TimeUnit.SECONDS
            # An object of Java, by which it can be removed; of the hook Java gets a new one each
            # time.
            runnable = jvm.java.lang.Thread(self._hook)
            hooks.addShutdownHook(runnable, PRIORITY, int(self._timeout_s) + GRACE_S, seconds)
            self._remove = lambda: hooks.removeShutdownHook(runnable)
        return self

    def __exit__(self, *_error: object) -> None:
        self._hook.is_over.set()
        if not self.has_begun:
            # Java may end at any moment; and a later end would call a Python that is gone.
            with suppress(Py4JError, ConnectionError):
                self._remove()

    @property
    def has_begun(self) -> bool:
        """Return whether the Java process is about to end."""
        return self._hook.has_begun.is_set()


class ShutdownHook:
    """Java's Runnable: the hook, which Java calls on a thread of its own."""

    def __init__(self) -> None:
        self.has_begun, self.is_over = threading.Event(), threading.Event()

    def run(self) -> None:
        """Tell the program, and wait until its queries have stopped."""
        self.has_begun.set()
        self.is_over.wait()

    class Java:
        """The interface that Py4J shows to Java."""

        implements: ClassVar = ["java.lang.Runnable"]
