"""`apportion.StreamsConsumer`: a Python process in a Kafka Streams group, whose tasks are handed to its owner.

Instances of Kafka Streams and Python processes share one application: whoever leads, each task is run by one of them. What a task
does is the owner's: it reads the records of its tasks, writes what the topology says they write (repartition topics among it), and
keeps its state. Processing is not done here.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple
from uuid import uuid4

from apportion.client.consumer import Consumer, ConsumerRecord
from apportion.member.membership import Assignment, Progress, ShutDown
from apportion.member.streams_assignor import NEWEST_RELEASE, StreamsSettings, TaskShare
from apportion.streams.crew import Policy
from apportion.streams.releases import known_release
from apportion.streams.task_assignors import TASK_ASSIGNORS
from apportion.streams.topology import Topology, topology_of
from apportion.streams.words import RUNNING, TaskId
from apportion.topics import TopicPartition

STREAMS: dict[str, Any] = {  # option -> default, by Kafka Streams' names with underscores
    "process_id": None,
    "application_server": "",
    "client_tags": {},
    "upgrade_from": None,
    "release": NEWEST_RELEASE,
    "task_assignor": "highavailability",
    "num_standby_replicas": 0,
    "acceptable_recovery_lag": 10_000,
    "max_warmup_replicas": 2,
    "probing_rebalance_interval_ms": 600_000,
    "rack_aware_assignment_tags": (),
    "on_tasks": None,
}


NOT_NEGATIVE = ("num_standby_replicas", "acceptable_recovery_lag", "probing_rebalance_interval_ms")
DECIDED = ("group_protocol", "partition_assignment_strategy", "server_assignor")
"""Options of a Consumer that a Streams group leaves no choice in."""


class TaskRecord(NamedTuple):
    """A record, and the task that it is for."""

    task: TaskId
    record: ConsumerRecord


class StreamsConsumer(Consumer):
    """A member of a Kafka Streams group that reads the records of its tasks. For one thread at a time.

    application_id: the group; internal topics carry it in front of their names. topology: what all instances run, as `Topology`, or
    as `topology_of` takes it. Options are those of `Consumer` and of STREAMS; `upgrade_from` is Kafka Streams' upgrade.from,
    and `release` which of its releases this process speaks like, to try an upgrade out ("future": one that does not exist yet).
    on_tasks: called inside poll with a `TaskShare` when tasks came or went, after `on_revoked` or `on_lost` with the partitions of
    those that went.
    """

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str],
        application_id: str,
        *,
        topology: Topology | Iterable[Mapping[str, Any]],
        **options: Any,
    ) -> None:
        """The process joins its group at once. TopologyRefused or ValueError says what is wrong."""
        self.topology = topology if isinstance(topology, Topology) else topology_of(topology)
        streams = _checked({**STREAMS, **{name: options.pop(name) for name in STREAMS if name in options}}, options)
        self._on_tasks: Callable[[TaskShare], object] | None = streams["on_tasks"]
        self._share = TaskShare()
        self._task_of: dict[TopicPartition, TaskId] = {}
        self._reported: dict[TaskId, int] = {}
        self._seen: tuple[TaskShare, Assignment] = (self._share, ())
        self._streams = StreamsSettings(
            topology=self.topology,
            process_id=uuid4().bytes if streams["process_id"] is None else streams["process_id"],
            endpoint=streams["application_server"],
            tags=streams["client_tags"],
            upgrade_from=streams["upgrade_from"],
            release=known_release(streams["release"]),
            assignor=streams["task_assignor"],
            policy=Policy(
                standbys=streams["num_standby_replicas"],
                acceptable_lag=streams["acceptable_recovery_lag"],
                max_warmups=streams["max_warmup_replicas"],
                tags=tuple(streams["rack_aware_assignment_tags"]),
            ),
            probing_interval_ms=streams["probing_rebalance_interval_ms"],
        )
        defaults = {"group_protocol": "classic", "auto_offset_reset": "earliest"}
        super().__init__(bootstrap_servers, application_id, topics=self.topology.source_topics, **(defaults | options))

    @property
    def tasks(self) -> TaskShare:
        """The tasks that this process runs as of the last poll: those whose partitions it has all taken up."""
        return self._share

    def poll_tasks(self, timeout_ms: int = 1_000) -> list[TaskRecord]:
        """The next records with the tasks that they are for; as `poll`."""
        return [
            TaskRecord(self._task_of[TopicPartition(record.topic, record.partition)], record) for record in self.poll(timeout_ms)
        ]

    def report(self, offset_sums: Mapping[TaskId, int]) -> None:
        """The group hears in its next rebalance what this process has of tasks that it does not run.

        offset_sums: for each, up to where its state goes, summed over its changelogs. Who has most of it is its best heir.
        """
        self._reported = dict(offset_sums)
        self._tell()

    def shut_down_application(self) -> None:
        """Every instance of the application ends (KIP-671), this one with Refused from a later poll."""
        self._session.report(ShutDown())

    def _session_settings(self, chosen: Mapping[str, Any]) -> dict[str, Any]:
        settings = super()._session_settings(chosen)
        del settings["assignors"]
        return settings | {"protocol": "streams", "streams": self._streams}

    def _follow(self) -> None:
        super()._follow()
        share = self._session.tasks()
        if share is self._seen[0] and self._told is self._seen[1]:
            return
        self._seen = share, self._told
        owned = dict.fromkeys(self.assignment)
        active = {task: places for task, places in share.active.items() if all(place in owned for place in places)}
        self._task_of = {place: task for task, places in active.items() for place in places}
        before, self._share = self._share, replace(share, active=active)
        self._tell()
        if self._on_tasks is not None and (before.active, before.standby) != (active, share.standby):
            self._on_tasks(self._share)

    def _tell(self) -> None:
        self._session.report(Progress(self._reported | dict.fromkeys(self._share.active, RUNNING)))


def _checked(streams: dict[str, Any], others: Mapping[str, Any]) -> dict[str, Any]:
    """The same options; ValueError, one sentence, for one that cannot be meant."""
    for name in DECIDED:
        if name in others:
            raise ValueError(f"{name} cannot be chosen: the members of a Streams group agree on it by themselves")
    for name in NOT_NEGATIVE:
        if type(streams[name]) is not int or streams[name] < 0:
            raise ValueError(f"{name} must be a whole number that is not negative, not {streams[name]!r}")
    if type(streams["max_warmup_replicas"]) is not int or streams["max_warmup_replicas"] < 1:
        raise ValueError(
            f"max_warmup_replicas must be at least 1, not {streams['max_warmup_replicas']!r}: else no state ever moves"
        )
    if streams["task_assignor"] not in TASK_ASSIGNORS:
        raise ValueError(f"there is no task_assignor {streams['task_assignor']!r}; there are {', '.join(TASK_ASSIGNORS)}")
    tags = streams["client_tags"]
    if not isinstance(tags, Mapping) or not all(isinstance(text, str) for pair in tags.items() for text in pair):
        raise ValueError(f"client_tags must map texts to texts, not {tags!r}")
    for name in streams["rack_aware_assignment_tags"]:
        if name not in tags:
            raise ValueError(f"rack_aware_assignment_tags names {name!r}, which is not in client_tags")
    if streams["on_tasks"] is not None and not callable(streams["on_tasks"]):
        raise ValueError(f"on_tasks must be a function of a TaskShare, not {streams['on_tasks']!r}")
    return streams
