"""The end of Spark's Java process where it is the parent of the program, as with spark-submit.

There SIGTERM goes to the Java process, which would end its queries at once and tell the program
nothing. So `run` registers a shutdown hook before Spark's own, which holds the shutdown up until
the queries have stopped.
"""

import os
import threading
from typing import Any, ClassVar, Self

from pyspark import SparkContext
from pyspark.java_gateway import ensure_callback_server_started

STARTED_BY_JAVA = "PYSPARK_GATEWAY_PORT"
"""The variable of the environment by which a Java parent says where it listens."""
PRIORITY = 1000  # hooks run in falling order, and Spark's have 50 at the most
GRACE_S = 15  # for the leave, after the batch


class JavaShutdown:
    """A shutdown hook of the Java process while `run` waits, where that process is the parent."""

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s, self._hook = timeout_s, ShutdownHook()

    def __enter__(self) -> Self:
        context: Any = SparkContext._active_spark_context
        if STARTED_BY_JAVA in os.environ and context is not None:
            ensure_callback_server_started(context._gateway)  # type: ignore[no-untyped-call]
            hooks = context._jvm.org.apache.hadoop.util.ShutdownHookManager.get()
            seconds = context._jvm.java.util.concurrent.TimeUnit.SECONDS
            hooks.addShutdownHook(self._hook, PRIORITY, int(self._timeout_s) + GRACE_S, seconds)
        return self

    def __exit__(self, *_error: object) -> None:
        # The hook stays registered, and does nothing any more.
        self._hook.is_over.set()

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

    def hashCode(self) -> int:
        """Return the hash by which Java keeps the hook."""
        return 1

    def equals(self, _other: object) -> bool:
        """Return that no other hook of Java is this one."""
        return False

    class Java:
        """The interface that Py4J shows to Java."""

        implements: ClassVar = ["java.lang.Runnable"]
