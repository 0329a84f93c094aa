"""Kafka Streams' coordination inside a classic group: what members tell each other, in which version, and who gets what.

Pure: bytes and values in, bytes and values out. Start at `words.py`; `codec.py` has the bytes, `probing.py` the versions,
`topology.py` the tasks, `leader.py` the assignment. Who joins when is `member/streams/machine.py`.
"""
