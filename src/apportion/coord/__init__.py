"""The group coordinator: a shard of `__consumer_offsets` as a machine.

Requests come in; records and responses go out. It knows no sockets, disks or clocks. `shard.py`
holds the tables of all that it can do.
"""
