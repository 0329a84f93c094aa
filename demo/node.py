"""A Master or a Worker of a Spark standalone cluster: `python -m demo.node CLASS ARGUMENT...`.

It runs a class of pip's PySpark by `spark-class`, and ends it with itself, or once the program that
started it has gone. The class sees nothing of the Python path of this process: what runs on the
cluster has to bring its modules.
"""

import os
import signal
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from demo.host import end_with_parent

MEMORY = "256m"  # of the node's own JVM; a Worker gives its executors other memory
# For a JVM that lives two minutes: less compilation, and a third less processor time at the start.
FAST_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def spark_home() -> Path:
    """Return the directory of the installed PySpark, which holds all of Spark."""
    found = find_spec("pyspark")
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent


def environment() -> dict[str, str]:
    """Return the environment of the node, and so of the executors that a Worker starts."""
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return inherited | {
        "SPARK_HOME": str(spark_home()),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": os.environ["TMPDIR"],
        "SPARK_DAEMON_MEMORY": MEMORY,
        "SPARK_DAEMON_JAVA_OPTS": f"{FAST_START} -Djava.io.tmpdir={os.environ['TMPDIR']}",
    }


def main() -> None:
    """Run the class until it ends, or until SIGTERM; exit with its code."""
    command = [str(spark_home() / "bin" / "spark-class"), *sys.argv[1:]]
    node = subprocess.Popen(command, env=environment())
    signal.signal(signal.SIGTERM, lambda *_: node.terminate())
    end_with_parent()
    sys.exit(node.wait())


if __name__ == "__main__":
    main()
