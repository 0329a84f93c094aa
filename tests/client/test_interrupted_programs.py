"""A KeyboardInterrupt in an assignor of the user's ends the program, as Ctrl-C does."""

import signal
import subprocess
import sys

import pytest

from apportion.client.cluster import Cluster
from apportion.server.embedded import EmbeddedBroker

LIMIT_S = 60
PROGRAM = """
import signal
import sys
import apportion
from apportion.assignors import Assignor

class Interrupts(Assignor):
    name = "interrupts"

    def assign(self, cluster, members):
        raise KeyboardInterrupt

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
options = {sys.argv[2]: [Interrupts()]}
protocol = "classic" if "partition" in sys.argv[2] else "consumer"
options["group_protocol"] = protocol
with apportion.Consumer(sys.argv[1], "g", topics=["t"], **options) as consumer:
    while True:
        consumer.poll(200)
"""


@pytest.mark.parametrize("option", ["group_local_assignors", "partition_assignment_strategy"])
def test_a_consumer_whose_assignor_is_interrupted_ends_its_program(option: str) -> None:
    with EmbeddedBroker() as broker:
        cluster = Cluster(broker.bootstrap)
        cluster.create_topic("t", 1)
        ended = subprocess.run(
            [sys.executable, "-c", PROGRAM, broker.bootstrap, option],
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        (group,) = cluster.list_groups()
        cluster.close()
    assert ended.returncode == -signal.SIGINT
    assert ended.stderr.endswith("\nKeyboardInterrupt\n")
    assert "assignor 'interrupts' failed" not in ended.stderr
    assert "died" not in ended.stderr
    # A classic member cannot leave: the thread that would is the one which was interrupted.
    if option == "group_local_assignors":
        assert group.group_state == "Empty"
