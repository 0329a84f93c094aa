"""Kafka Streams' coordination by its members: metadata, version probing, task assignment.

Public: `Topology` and `topology_of`, the topology that every instance of an application runs, and
`TaskId`. Everything inside is a function from bytes and values to bytes and values. Start at
`metadata/model.py`; `metadata/codec.py` has the bytes, `metadata/probing.py` the versions
(KIP-268), `topology.py` the tasks, `leader.py` the assignment of a classic group, `client_side.py`
that of a consumer group (KIP-848), `task_planning.py` what both share, `task_assignment/` the task
assignors (KIP-441), `describe/` the description of a group for operators.
"""

from typing import TYPE_CHECKING

from apportion.exports import lazily

if TYPE_CHECKING:
    from apportion.streams.metadata.model import TaskId
    from apportion.streams.topology import Topology, TopologyRefused
    from apportion.streams.topology_parser import topology_of
else:
    __getattr__, __dir__ = lazily(
        __name__,
        {
            "TaskId": "apportion.streams.metadata.model",
            "Topology": "apportion.streams.topology",
            "TopologyRefused": "apportion.streams.topology",
            "topology_of": "apportion.streams.topology_parser",
        },
    )

__all__ = ["TaskId", "Topology", "TopologyRefused", "topology_of"]
