"""Kafka Streams' own task assignors in a process beside us, asked for what they would give: the
driver of TaskOracle.java.
"""

from pathlib import Path
from typing import Any

import numpy as np

from apportion.streams.task_assignment.client_states import (
    AssignmentConfigs,
    ClientStates,
    TaskAssignment,
    Tasks,
)
from apportion.testing.kafka import jars_of
from tests.kafka.java import JavaProgram

HERE = Path(__file__).parent


class TaskOracle(JavaProgram):
    """Java's task assignors. Raises KafkaMissing without Java or Maven. options: for the JVM."""

    def __init__(self, *options: str) -> None:
        super().__init__(HERE / "TaskOracle.java", jars_of(HERE / "pom.xml"), *options)

    def assign(
        self, name: str, tasks: Tasks, clients: ClientStates, policy: AssignmentConfigs
    ) -> TaskAssignment:
        """What Java's assignor of that name gives; it does not tell warm-ups from standbys, so all
        are standbys here.
        """
        return self.timed(name, (tasks, clients, policy), 1)[0]

    def timed(
        self, name: str, question: tuple[Tasks, ClientStates, AssignmentConfigs], times: int
    ) -> tuple[TaskAssignment, list[float]]:
        """The same, asked so many times, and the milliseconds that each took."""
        tasks, clients, policy = question
        rows: Any = zip(
            *(
                each.tolist()
                for each in (
                    tasks.subtopology,
                    tasks.partition,
                    tasks.stateful.astype(int),
                    tasks.end_offset_sum,
                )
            ),
            strict=True,
        )
        self._ask(
            "tasks",
            *(f"{sub}:{partition}:{stateful}:{end}" for sub, partition, stateful, end in rows),
        )
        for process, consumers in enumerate(clients.consumer_counts.tolist()):
            mine = np.flatnonzero(clients.process == process)
            had = (
                f"{clients.task[row]}:{clients.lag[row]}:{int(clients.is_running[row])}"
                for row in mine
            )
            tags = ",".join(f"{key}={value}" for key, value in clients.tags[process].items()) or "-"
            self._ask("process", consumers, tags, *had)
        self._ask(
            "assign",
            name,
            policy.num_standby_replicas,
            policy.acceptable_recovery_lag,
            policy.max_warmup_replicas,
            ",".join(policy.rack_aware_tags) or "-",
            times,
        )
        active, standby, (probes,), spent = (self.answer().split()[1:] for _ in range(4))
        rows = np.array([each.split(":") for each in standby], np.int32).reshape(-1, 2)
        shares = TaskAssignment(
            np.array(active, np.int32), rows, np.empty((0, 2), np.int32), probes == "1"
        )
        return shares, [int(each) / 1e6 for each in spent]

    def _ask(self, *words: object) -> None:
        self.tell(" ".join(map(str, words)))
