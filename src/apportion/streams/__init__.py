"""Kafka Streams' coordination inside a classic group: what members tell each other, in which
version, and who gets what.

Public: `Topology` and `topology_of`, the topology that every instance of an application runs, and
`TaskId`. Inside: bytes and values in, bytes and values out. Start at `metadata/model.py`;
`metadata/codec.py` has the bytes, `metadata/probing.py` the versions, `topology.py` the tasks,
`leader.py` the assignment.
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
