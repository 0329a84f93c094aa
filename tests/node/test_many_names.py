"""Requests with many names: the broker's time is that of their bytes, and no more.

The figures are those of SECURITY.md, of the processor's time; they are printed with pytest -s.
"""

import time

import pytest

from apportion.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from apportion.wire.messages.describe_groups import DescribeGroupsRequest
from apportion.wire.messages.list_offsets import ListOffsetsRequest, ListOffsetsTopic
from apportion.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from apportion.wire.table import api_of, encode_request
from tests.node.kit import NodeDriver

COUNT = 20_000
NAMES = tuple(f"{number:06x}" for number in range(COUNT))
MIB = 1 << 20
MOST_S = 8
"""Many times what a request takes, and less than a second try for each name would."""
REQUESTS = {
    "Metadata": MetadataRequest(
        topics=tuple(MetadataRequestTopic(name=name) for name in NAMES),
        allow_auto_topic_creation=False,
    ),
    "ListOffsets": ListOffsetsRequest(topics=tuple(ListOffsetsTopic(name=each) for each in NAMES)),
    "DescribeGroups": DescribeGroupsRequest(groups=NAMES),
    "CreateTopics": CreateTopicsRequest(
        topics=tuple(
            CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in NAMES
        ),
        validate_only=True,
    ),
}


@pytest.mark.parametrize("authorizer", ["", "StandardAuthorizer"])
@pytest.mark.parametrize("name", REQUESTS)
def test_a_request_of_many_names_takes_no_more_than_time_for_each(
    name: str, authorizer: str
) -> None:
    driver, request = NodeDriver(authorizer_class_name=authorizer), REQUESTS[name]
    size = len(encode_request(request, api_of(type(request)).versions[-1], 1, "test"))
    begun_s = time.process_time()
    driver.call(request)
    taken_s = time.process_time() - begun_s
    said = f"{taken_s * 1e6 / COUNT:.0f} us a name, {taken_s * MIB / size:.1f} s a MiB"
    print(f"{name}, {authorizer or 'no authorizer'}: {said}")
    assert taken_s < MOST_S
