"""Every API answers in every version that it is listed in."""

import pytest

from apportion.wire.table import SERVED_APIS
from tests.message_texts import APIS_BY_NAME, request
from tests.node import kit
from tests.node.kit import NodeDriver

COMMIT = "OffsetCommit group_id=g topics=[name=t topic_id=t partitions=[committed_offset=1]]"
# One request of each API that is about the topic t or the group g, and goes well.
REAL = [
    COMMIT,
    "Metadata topics=[name=t]",
    "ListOffsets replica_id=-1 topics=[name=t partitions=[timestamp=-1]]",
    "OffsetForLeaderEpoch replica_id=-1 topics=[topic=t partitions=[leader_epoch=0]]",
    "OffsetFetch group_id=g topics=[name=t partition_indexes=[0]] groups=[group_id=g topics=null]",
    "DescribeConfigs resources=[resource_type=2 resource_name=t configuration_keys=null]",
    "FindCoordinator key=g coordinator_keys=[g]",
    "DeleteTopics topics=[name=t] topic_names=[t]",
    "CreateTopics topics=[name=u num_partitions=1 replication_factor=1]",
    "ListGroups",
    "Fetch topics=[topic=t topic_id=t partitions=[partition_max_bytes=100]]",
]


@pytest.mark.parametrize(
    ("text", "version"),
    [(text, version) for text in REAL for version in APIS_BY_NAME[text.split()[0]].versions],
    ids=lambda each: str(each).partition(" ")[0],
)
def test_every_version_answers_a_real_request(driver: NodeDriver, text: str, version: int) -> None:
    ids = {"t": driver.create("t")}
    driver.call(kit.produce("t", kit.batch(b"a")), 12)
    driver.call(request(COMMIT, ids), 9)
    answer = driver.call(request(text, ids), version)  # and it could be encoded
    assert "error_code=" not in repr(answer), answer


@pytest.mark.parametrize(
    ("key", "version"),
    [(key, version) for key, api in SERVED_APIS.items() for version in api.versions],
)
def test_every_api_answers_an_empty_request_in_every_version(
    driver: NodeDriver, key: int, version: int
) -> None:
    request = SERVED_APIS[key].request()
    ticket = driver.ask(request, version)
    driver.flush()
    driver.sleep(1000)
    assert ticket in driver.answers, f"{SERVED_APIS[key].name} v{version} was not answered"
    assert not driver.notes
