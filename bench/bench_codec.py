"""What a steady heartbeat costs in the codec: its frame decoded, the answer made, the answer's
frame encoded.
"""

from statistics import median
from time import thread_time
from typing import Any

from apportion.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from apportion.wire.table import decode_request, encode_request, encode_response

TARGET_US = 3
TIMES, REPEATS = 20_000, 15


def heartbeat_us() -> float:
    """The median over some runs, by the CPU time of this thread: what it costs, whoever else uses
    the machine.
    """
    steady = ConsumerGroupHeartbeatRequest(
        group_id="flights-etl", member_id="h7Y3nZ2yTqOo1W0mJ4rXzQ", member_epoch=7
    )
    frame = encode_request(steady, 1, 1, "flights-etl-0")[4:]
    spent = []
    for _ in range(REPEATS):
        start = thread_time()
        for _ in range(TIMES):
            asked = decode_request(frame)
            answer = ConsumerGroupHeartbeatResponse(
                member_id=asked.body.member_id,
                member_epoch=asked.body.member_epoch,
                heartbeat_interval_ms=1000,
            )
            encode_response(asked.api, asked.version, asked.correlation_id, answer)
        spent.append((thread_time() - start) / TIMES * 1e6)
    return median(spent)


def run() -> list[dict[str, Any]]:
    """The rows of this bench."""
    value = round(heartbeat_us(), 2)
    return [
        {
            "name": "heartbeat_codec_us",
            "value": value,
            "unit": "us",
            "target": TARGET_US,
            "better": "lower",
        }
    ]
