"""The names of APIs that Apache Kafka has and this broker has not, for refusals of their requests.

docs/differences.md says what they are for. The clients can send some of them: their messages are in
`wire/table.py`. An API is served, and advertised, once its row here is gone.
"""

ABSENT_APIS = {
    24: "AddPartitionsToTxn",
    25: "AddOffsetsToTxn",
    26: "EndTxn",
    27: "WriteTxnMarkers",
    28: "TxnOffsetCommit",
    34: "AlterReplicaLogDirs",
    35: "DescribeLogDirs",
    38: "CreateDelegationToken",
    39: "RenewDelegationToken",
    40: "ExpireDelegationToken",
    41: "DescribeDelegationToken",
    43: "ElectLeaders",
    45: "AlterPartitionReassignments",
    46: "ListPartitionReassignments",
    48: "DescribeClientQuotas",
    49: "AlterClientQuotas",
    55: "DescribeQuorum",
    57: "UpdateFeatures",
    61: "DescribeProducers",
    64: "UnregisterBroker",
    65: "DescribeTransactions",
    66: "ListTransactions",
    75: "DescribeTopicPartitions",
    76: "ShareGroupHeartbeat",
    77: "ShareGroupDescribe",
    78: "ShareFetch",
    79: "ShareAcknowledge",
    80: "AddRaftVoter",
    81: "RemoveRaftVoter",
    83: "InitializeShareGroupState",
    84: "ReadShareGroupState",
    85: "WriteShareGroupState",
    86: "DeleteShareGroupState",
    87: "ReadShareGroupStateSummary",
    88: "StreamsGroupHeartbeat",
    89: "StreamsGroupDescribe",
    90: "DescribeShareGroupOffsets",
    91: "AlterShareGroupOffsets",
    92: "DeleteShareGroupOffsets",
}
"""The APIs that Apache Kafka 4.3.1 advertises and this broker does not, by API key."""
