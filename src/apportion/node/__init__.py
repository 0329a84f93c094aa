"""One broker as a machine: its requests, partitions, topics, flush gate and coordinator shards."""
