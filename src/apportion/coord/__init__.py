"""The group coordinator: what a shard of `__consumer_offsets` decides. Heartbeats and commits come in, records and replies go out.

It refuses to know sockets, disks, clocks and how records are stored; `shard.py` holds the tables that say what it can do.
"""
