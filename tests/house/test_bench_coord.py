"""The benchmark of the coordinator shard runs: nothing else plays its requests."""

from bench import bench_coord


def test_steady_heartbeats_are_measured() -> None:
    assert bench_coord.steady_heartbeat() > 0
