"""Every API that has a list, as a request with something in each list; `wrong_twice.py` repeats a
part of it.

A request is a function of the id of the topic `twice`, which has two batches of two records in its
first partition, and of a group that no other case has.
"""

from typing import Any, NamedTuple

from apportion.wire.messages.create_partitions import CreatePartitionsTopic
from apportion.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
)
from apportion.wire.messages.delete_records import DeleteRecordsPartition
from apportion.wire.messages.describe_configs import DescribeConfigsResource
from apportion.wire.messages.fetch import FetchPartition
from apportion.wire.messages.find_coordinator import FindCoordinatorRequest
from apportion.wire.messages.join_group import JoinGroupRequestProtocol
from apportion.wire.messages.leave_group import MemberIdentity
from apportion.wire.messages.list_offsets import ListOffsetsPartition
from apportion.wire.messages.offset_commit import OffsetCommitRequestPartition
from apportion.wire.messages.offset_fetch import OffsetFetchRequestGroup
from apportion.wire.messages.offset_for_leader_epoch import OffsetForLeaderPartition
from apportion.wire.messages.produce import PartitionProduceData
from apportion.wire.messages.sync_group import SyncGroupRequestAssignment
from tests.kafka.differential.twice_acl_requests import created_acls, deleted_acls
from tests.kafka.differential.twice_config_requests import (
    altered_configs,
    config_resources,
    replaced_configs,
)
from tests.kafka.differential.twice_group_requests import (
    beat,
    commit,
    committed,
    delete_groups,
    describe,
    describe_consumer,
    fetch_all_offsets,
    fetch_offsets,
    fetch_offsets_of_one,
    forget_offsets,
    join,
    leave,
    list_groups,
    list_states,
    sync,
)
from tests.kafka.differential.twice_topic_requests import (
    Make,
    configs,
    create,
    create_by_assignment,
    delete_named_topics,
    delete_topics,
    ends,
    epochs,
    fetch,
    forget_partitions,
    grow,
    metadata,
    metadata_by_both,
    metadata_by_id,
    produce,
    trim,
)
from tests.kafka.differential.wrong import batch

Said = tuple[int, Make]


class Whole(NamedTuple):
    """One request in some versions, and (version, request) of what is asked before and after it."""

    name: str
    versions: tuple[int, ...]
    request: Make
    before: tuple[Said, ...] = ()
    after: tuple[Said, ...] = ()


OTHERWISE: dict[type, dict[str, Any]] = {
    PartitionProduceData: {"records": batch(3)},
    FetchPartition: {"fetch_offset": 2},
    ListOffsetsPartition: {"timestamp": -2},
    OffsetForLeaderPartition: {"leader_epoch": 9},
    OffsetCommitRequestPartition: {
        "committed_offset": 77,
        "committed_metadata": "x" * 5000,
        "partition_index": 99,
    },
    OffsetFetchRequestGroup: {"topics": None},
    JoinGroupRequestProtocol: {"metadata": b"\0\1\0\0\0\0\xff\xff\xff\xff"},
    MemberIdentity: {"group_instance_id": None, "member_id": "ghost"},
    SyncGroupRequestAssignment: {"assignment": b"other"},
    CreatableTopic: {"num_partitions": 2},
    CreatableTopicConfig: {"value": "delete,compact"},
    CreatableReplicaAssignment: {"broker_ids": (9,)},
    DeleteRecordsPartition: {"offset": 1},
    CreatePartitionsTopic: {"count": 9},
    DescribeConfigsResource: {"configuration_keys": ("segment.bytes",)},
}
"""What the second mention may say that the first does not."""


REQUESTS = (
    Whole("fetch", (4, 12, 13, 18), fetch(0)),
    Whole("fetch and wait", (4, 12, 13, 18), fetch(0, 10**9)),
    Whole("fetch in parts", (12,), fetch(0, max_bytes=100)),
    Whole("forget partitions", (12, 13), forget_partitions),
    Whole("offsets", (1, 10), ends),
    Whole("end of the epoch", (2, 4), epochs),
    Whole("metadata", (4, 9, 12), metadata),
    Whole("metadata by id", (12,), metadata_by_id),
    Whole("metadata by both", (12,), metadata_by_both),
    Whole("commit", (2, 8, 9, 10), commit, after=((9, committed),)),
    Whole("fetch offsets", (8, 9, 10), fetch_offsets, before=((9, commit),)),
    Whole("fetch all offsets", (8, 10), fetch_all_offsets, before=((9, commit),)),
    Whole("fetch offsets of one", (1, 7), fetch_offsets_of_one, before=((9, commit),)),
    Whole("forget offsets", (0,), forget_offsets, before=((9, commit),), after=((9, committed),)),
    Whole(
        "coordinators",
        (4, 6),
        lambda twice, group: FindCoordinatorRequest(key_type=0, coordinator_keys=("a", "b")),
    ),
    Whole("join", (5, 9), join, after=((6, describe),)),
    Whole("leave", (3, 5), leave, before=((5, join),), after=((6, describe),)),
    Whole("sync", (0, 5), sync),
    Whole("describe", (0, 6), describe, before=((9, commit),)),
    Whole("list", (5,), list_groups),
    Whole("list states", (4,), list_states),
    Whole("delete", (0, 2), delete_groups, before=((9, commit),), after=((9, committed),)),
    Whole("beat", (0, 1), beat(0), after=((1, describe_consumer),)),
    Whole("beat and own", (1,), beat(2), before=((1, beat(0)),), after=((1, describe_consumer),)),
    Whole("describe consumers", (0, 1), describe_consumer, before=((1, beat(0)),)),
    Whole("create", (2, 7), create),
    Whole("create by assignment", (2, 7), create_by_assignment),
    Whole("delete topics", (6,), delete_topics),
    Whole("delete named topics", (1, 5), delete_named_topics),
    Whole("grow", (0, 3), grow),
    Whole("trim", (0, 2), trim),
    Whole("configs", (1, 4), configs),
    Whole("altered configs", (1,), altered_configs),
    Whole("replaced configs", (2,), replaced_configs),
    Whole("config resources", (1,), config_resources),
    Whole("created acls", (1, 3), created_acls),
    Whole("deleted acls", (1, 3), deleted_acls),
    # last: the logs are not alike after it
    Whole("produce", (9, 12, 13), produce, after=((10, ends),)),
)
"""Every API that has a list, and what about it may depend on the version."""
