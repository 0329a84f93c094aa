"""The APIs that Apache Kafka has and this broker has not, with the reasons.

`make docs` prints the list into docs/differences.md. The clients can send some of these requests:
their messages are in `wire/table.py`. An API is served, and advertised, once its row here is gone.
"""

ABSENT_BY_REASON = {
    "There are no delegation tokens": {
        38: "CreateDelegationToken",
        39: "RenewDelegationToken",
        40: "ExpireDelegationToken",
        41: "DescribeDelegationToken",
    },
    "There are no transactions": {
        24: "AddPartitionsToTxn",
        25: "AddOffsetsToTxn",
        26: "EndTxn",
        27: "WriteTxnMarkers",
        28: "TxnOffsetCommit",
        61: "DescribeProducers",
        65: "DescribeTransactions",
        66: "ListTransactions",
    },
    "There are no quotas, and the one feature has one level": {
        48: "DescribeClientQuotas",
        49: "AlterClientQuotas",
        57: "UpdateFeatures",
    },
    "One broker with one disk is the whole cluster": {
        34: "AlterReplicaLogDirs",
        35: "DescribeLogDirs",
        43: "ElectLeaders",
        45: "AlterPartitionReassignments",
        46: "ListPartitionReassignments",
        55: "DescribeQuorum",
        64: "UnregisterBroker",
        80: "AddRaftVoter",
        81: "RemoveRaftVoter",
        94: "UnregisterController",
    },
    "Metadata describes all topics at once": {
        75: "DescribeTopicPartitions",
    },
    "There are no share groups": {
        76: "ShareGroupHeartbeat",
        77: "ShareGroupDescribe",
        78: "ShareFetch",
        79: "ShareAcknowledge",
        83: "InitializeShareGroupState",
        84: "ReadShareGroupState",
        85: "WriteShareGroupState",
        86: "DeleteShareGroupState",
        87: "ReadShareGroupStateSummary",
        90: "DescribeShareGroupOffsets",
        91: "AlterShareGroupOffsets",
        92: "DeleteShareGroupOffsets",
    },
    "There are no Streams groups": {
        88: "StreamsGroupHeartbeat",
        89: "StreamsGroupDescribe",
        93: "StreamsGroupTopologyDescriptionUpdate",
    },
}
"""The reason -> the APIs that Apache Kafka 4.4.0 advertises and this broker does not, by API key.

All other APIs of Kafka's are advertised in Kafka's versions (tests/kafka/test_versions.py).
"""
ABSENT_APIS = {key: name for apis in ABSENT_BY_REASON.values() for key, name in apis.items()}
"""The names of these APIs, by API key."""
