"""Requests with random damage: either their bytes mean nothing, or they are answered; a node never
breaks over them.
"""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from apportion.errors import DecodeError
from apportion.wire.messages.list_groups import ListGroupsRequest
from apportion.wire.table import APIS, api_of, decode_request, encode_request
from tests.message_texts import request
from tests.node import kit

IDS = {"t": bytes(range(16))}
BEAT = "ConsumerGroupHeartbeat group_id=g member_id=m rebalance_timeout_ms=1000"
CLASSIC = "group_id=c generation_id=1 member_id=c"
JOIN = (
    "JoinGroup group_id=c session_timeout_ms=6000 protocol_type=consumer "
    "protocols=[name=range metadata=x]"
)
# As much as possible with the topic t, a consumer group g and a classic group c.
TEXTS = [
    "ListOffsets replica_id=-1 topics=[name=t partitions=[timestamp=-1, timestamp=7]]",
    "Metadata topics=[name=t, name=new]",
    "CreateTopics topics=[name=u num_partitions=2 replication_factor=1]",
    "CreatePartitions topics=[name=t count=5 assignments=null]",
    "DeleteRecords topics=[name=t partitions=[offset=1]]",
    "DeleteTopics topics=[name=t]",
    "DescribeConfigs resources=[resource_type=2 resource_name=t configuration_keys=null]",
    "FindCoordinator coordinator_keys=[g]",
    "InitProducerId transactional_id=null",
    f"{BEAT} subscribed_topic_names=[t] topic_partitions=[]",
    f"{BEAT} member_epoch=2 topic_partitions=[topic_id=t partitions=[0,1]] server_assignor=range",
    f"{BEAT} member_epoch=-1",
    f"{BEAT} member_epoch=-2 instance_id=i",
    "ConsumerGroupDescribe group_ids=[g,h]",
    "OffsetCommit group_id=g topics=[name=t topic_id=t partitions=[committed_offset=5]]",
    "OffsetFetch groups=[group_id=g topics=null]",
    "OffsetDelete group_id=g topics=[name=t partitions=[partition_index=0]]",
    "ListGroups states_filter=[Stable]",
    "DeleteGroups groups_names=[g,h,c]",
    f"{JOIN} rebalance_timeout_ms=9000",
    f"{JOIN} group_instance_id=i",
    f"SyncGroup {CLASSIC} protocol_type=consumer protocol_name=range "
    "assignments=[member_id=c assignment=x]",
    f"Heartbeat {CLASSIC}",
    "LeaveGroup group_id=c members=[group_instance_id=i]",
    "DescribeGroups groups=[g,c] include_authorized_operations=yes",
]
REQUESTS = [
    kit.produce("t", kit.batch(b"a", b"b")),
    kit.fetch("t"),
    *(request(text, IDS) for text in TEXTS),
]


damages = st.lists(
    st.tuples(
        st.integers(0, len(REQUESTS) - 1),  # which request
        st.integers(0, 30),  # which version, counted from the newest
        # bytes put in place
        st.lists(
            st.tuples(st.integers(0, 400), st.sampled_from([0, 1, 2, 127, 128, 255])), max_size=3
        ),
        st.sampled_from([None, 0, 1, 5, 20]),  # how much is cut off
    ),
    min_size=1,
    max_size=8,
)


def frame_of(request: Any, back: Any, positions: list[tuple[int, int]], cut: int | None) -> bytes:
    """The request in some version, with bytes changed behind its header."""
    versions = api_of(type(request)).versions
    version = versions[-1 - back % len(versions)]
    if type(request) in (APIS[0].request, APIS[1].request):
        version = min(version, 12)
    try:
        frame = bytearray(encode_request(request, version, 1, "c")[4:])
    except ValueError:  # that version cannot say it
        frame = bytearray(encode_request(request, versions[-1], 1, "c")[4:])
    for position, byte in positions:
        at = 8 + position % (len(frame) - 8)
        frame[at] = byte
    return bytes(frame[: len(frame) - cut] if cut else frame)


@settings(max_examples=200, deadline=None)
@given(damages)
def test_no_damage_breaks_a_node(
    damaged: list[tuple[int, int, list[tuple[int, int]], int | None]],
) -> None:
    driver = kit.NodeDriver()
    driver.create("t", 3)
    for which, cut, changes, length in damaged:
        try:
            incoming = decode_request(frame_of(REQUESTS[which], cut, changes, length))
        except DecodeError:
            continue
        driver.ask(incoming.body, incoming.version)  # which also encodes the answer
        driver.flush()
    driver.sleep(100_000)
    driver.flush()
    assert driver.call(ListGroupsRequest()).error_code == 0
    driver.crash()
