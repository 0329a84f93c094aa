"""What the codec costs for a steady heartbeat: request decoded, response built and encoded."""

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
    """Return the median of some runs, in CPU time of this thread: other processes do not count."""
    steady = ConsumerGroupHeartbeatRequest(
        group_id="flights-etl", member_id="h7Y3nZ2yTqOo1W0mJ4rXzQ", member_epoch=7
    )
    frame = encode_request(steady, 1, 1, "flights-etl-0")[4:]
    times_us = []
    for _ in range(REPEATS):
        start = thread_time()
        for _ in range(TIMES):
            request = decode_request(frame)
            response = ConsumerGroupHeartbeatResponse(
                member_id=request.body.member_id,
                member_epoch=request.body.member_epoch,
                heartbeat_interval_ms=1000,
            )
            encode_response(request.api, request.version, request.correlation_id, response)
        times_us.append((thread_time() - start) / TIMES * 1e6)
    return median(times_us)


def run() -> list[dict[str, Any]]:
    """Return the rows of `make bench`."""
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
