"""The script on a Spark standalone cluster: the same, but for a Worker that is lost on the way.

The driver of an application is the member of the group, and its executors are not. So a lost Worker
moves no partition; the batches that run take longer, since Spark runs its tasks again elsewhere.
"""

from collections.abc import Callable

from demo.applications import Application
from demo.play import RunRecord, Stage, Stopped
from demo.standalone import StandaloneCluster
from demo.timeline import WorkerLoss, written_after

FIRST_WORKERS = KEPT, LOST = ("worker-1", "worker-2")
REPLACEMENT = "worker-3"
CORES = 2
"""Those of a Worker: one for an executor of each application."""


class ClusterStage(Stage):
    """The stage with a cluster, on which all applications run."""

    cluster: StandaloneCluster | None = None
    worker_loss: WorkerLoss | None = None

    def run(self) -> None:
        """Run the script."""
        self.start_cluster()
        self.share()
        self.lose_worker()
        self.lose_first()
        self.roll()
        self.finish()

    def start_cluster(self) -> None:
        """Start a Master and two Workers."""
        self.cluster = StandaloneCluster(
            self.script.out / "logs", self.scratch_directory / "cluster", CORES
        )
        for name in FIRST_WORKERS:
            self.cluster.add_worker(name)
        self.until("a Spark Master and two Workers start", self.cores_are_used(0, 0))
        self.report(f"a Spark Master at {self.cluster.url} and two Workers with {CORES} cores each")
        self.place = {"master": self.cluster.url}

    def lose_worker(self) -> None:
        """Lose a Worker at a sixth of the rows, and let another take its place."""
        cluster = self.running_cluster()
        self.until(
            "each Worker runs an executor of each application; one will be lost at a sixth of the "
            "rows",
            lambda: self.written(1 / 6)() and self.cores_are_used(CORES, CORES)(),
        )
        executors = cluster.executors_of(LOST)
        if not executors:
            raise Stopped(f"{LOST} runs no executor. {self._log_tail(LOST)}")
        loss = self.worker_loss = WorkerLoss(self.at_ms(), LOST, executors)
        count = cluster.lose_worker(LOST)
        self.report(
            f"{LOST} is lost with {executors} executors: {count} processes killed at one instant"
        )
        self.until(
            f"{KEPT} runs the lost tasks again; no member has gone, so no partition moves",
            lambda: written_after(self.observer.samples, loss.at_ms) is not None,
        )
        self.report("all that was in the topic is written: both queries went on")
        cluster.add_worker(REPLACEMENT)
        self.report(f"{REPLACEMENT} starts")
        self.until(
            f"{REPLACEMENT} takes the place of {LOST}, and gets an executor of each application",
            self.cores_are_used(CORES, CORES),
        )
        self.report(f"{REPLACEMENT} runs an executor of each application")

    def running_cluster(self) -> StandaloneCluster:
        """Return the cluster, which `start_cluster` has started."""
        assert self.cluster is not None
        return self.cluster

    def cores_are_used(self, *cores: int) -> Callable[[], bool]:
        """Return a condition: the cluster has so many Workers, on which so many cores are used."""
        return lambda: self.running_cluster().cores_by_worker() == sorted(cores)

    def processes(self) -> dict[str, Application]:
        """Return by name all that must not end by itself."""
        return self.applications | (self.cluster.nodes if self.cluster else {})

    def record(self) -> RunRecord:
        """Return what was seen so far."""
        losses = (self.worker_loss,) if self.worker_loss else ()
        return super().record()._replace(worker_losses=losses)

    def clear(self) -> None:
        """Stop everything, the cluster last."""
        try:
            super().clear()
        finally:
            if self.cluster:
                self.cluster.end()
