"""A broker in a process of its own, as users run it, for clients that others wrote."""

import re
import signal
import subprocess
import sys

import pytest


class Served:
    """`apportion serve` on one data directory; it can be killed and started again on the same port."""

    def __init__(self, data_dir, *settings):
        self.data_dir = data_dir
        self.settings = settings
        self.port = 0
        self.process = None
        self.start()

    def start(self):
        command = [sys.executable, "-m", "apportion.cli.main", "serve", "--data-dir", str(self.data_dir)]
        command += ["--listen", f"127.0.0.1:{self.port}"]
        for setting in self.settings:
            command += ["--set", setting]
        with open(self.data_dir.parent / "serve.log", "a") as log:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        line = self.process.stdout.readline()
        found = re.fullmatch(r"listening on 127\.0\.0\.1:(\d+)\n", line)
        assert found, f"{line!r}; its log: {self.log()}"
        self.port = int(found[1])

    @property
    def bootstrap(self):
        return f"127.0.0.1:{self.port}"

    def log(self):
        return (self.data_dir.parent / "serve.log").read_text()

    def kill(self):
        """SIGKILL: nothing is flushed, nobody is told."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.process.stdout.close()

    def stop(self):
        self.process.terminate()
        assert self.process.wait(timeout=30) == 0
        self.process.stdout.close()


@pytest.fixture
def served(tmp_path):
    """A broker with three partitions a topic."""
    broker = Served(tmp_path / "data", "num.partitions=3", "group.consumer.session.timeout.ms=10000")
    yield broker
    broker.stop()
    wrong = [line for line in broker.log().splitlines() if " ERROR " in line]
    assert wrong == []
