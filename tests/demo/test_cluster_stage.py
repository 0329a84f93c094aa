"""What `make demo CLUSTER=1` has and the other demonstration has not: a Worker is lost."""

import io
import os

import psutil
import pytest

from demo.cluster_stage import ClusterStage
from demo.play import PARTITIONS, RunRecord, Script, play
from demo.screen import PlainLines
from demo.timeline import worker_events


class UntilTheNextWorker(ClusterStage):
    """The script until a new Worker has taken the place of the one that was lost."""

    def run(self) -> None:
        """Run the first half of the script."""
        self.start_cluster()
        self.share()
        self.lose_worker()


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> tuple[RunRecord, str]:
    """The record of a run, and what it has reported."""
    screen = io.StringIO()
    script = Script("embedded", 6_000, 6.0, tmp_path_factory.mktemp("demo"))
    return play(script, PlainLines(screen), UntilTheNextWorker), screen.getvalue()


def test_both_queries_go_on_without_a_worker_and_no_partition_moves(
    played: tuple[RunRecord, str],
) -> None:
    record, reports = played
    (event,) = worker_events(record.samples, record.worker_losses, PARTITIONS)
    assert (event.member, event.partitions_moved, event.longest_unowned_ms) == ("worker-2", 0, 0)
    assert event.converged_ms is not None
    assert [loss.executors for loss in record.worker_losses] == [2]
    assert "worker-2 is lost with 2 executors: " in reports
    assert "worker-3 runs an executor of each application" in reports


@pytest.mark.usefixtures("played")
def test_no_process_of_the_cluster_is_left() -> None:
    commands = []
    for child in psutil.Process(os.getpid()).children(recursive=True):
        try:
            commands.append(" ".join(child.cmdline()))
        except psutil.NoSuchProcess:  # a zombie, too
            continue
    words = ("demo.pipeline", "demo.node", "org.apache.spark.deploy", "ExecutorBackend")
    assert [line for line in commands if any(word in line for word in words)] == []
