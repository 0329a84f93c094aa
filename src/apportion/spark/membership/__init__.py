"""The membership of a query in its consumer group, or the partitions that it has without one."""
