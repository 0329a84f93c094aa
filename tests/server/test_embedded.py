"""What an EmbeddedBroker says of itself, and of settings that it does not have."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from apportion.broker import EmbeddedBroker
from apportion.client.cluster import Cluster
from apportion.node.settings import SettingRefused
from apportion.server.sockets import bind_socket
from apportion.wire.messages.describe_cluster import DescribeClusterRequest

ADDRESS = (
    "give the address as listeners='127.0.0.1:19092'; without it a free port is picked, and "
    "`bootstrap` has the address"
)
TOPICS = (
    "topics are made by any Kafka admin client once the broker runs, or when a producer "
    "first names them, "
    "with num_partitions partitions each"
)
DIRECTORY = "give the directory as data_dir"


@pytest.mark.parametrize(
    ("setting", "value", "remedy"),
    [
        ("port", 19092, ADDRESS),
        ("host", "127.0.0.1", ADDRESS),
        ("listen", "127.0.0.1:19092", ADDRESS),
        ("listener", "127.0.0.1:19092", ADDRESS),
        ("bootstrap", "127.0.0.1:19092", ADDRESS),
        ("bootstrap_servers", "127.0.0.1:19092", ADDRESS),
        ("topics", {"flights": 3}, TOPICS),
        ("log_dirs", "x", DIRECTORY),
        ("log.dir", "x", DIRECTORY),
    ],
)
def test_a_setting_that_is_named_otherwise_here_is_refused_with_the_remedy(
    setting: str, value: int | str | dict[str, int], remedy: str
) -> None:
    with pytest.raises(SettingRefused) as refusal:
        defaults: dict[str, Any] = {setting: value}
        EmbeddedBroker(**defaults)
    assert str(refusal.value) == f"there is no setting {setting!r} of an EmbeddedBroker: {remedy}."


@pytest.mark.parametrize(
    ("misspelt", "nearest"),
    [
        ("num_partions", "num_partitions"),
        ("num.partions", "num.partitions"),
        ("partitions", "num_partitions"),
    ],
)
def test_a_misspelt_setting_is_refused_with_the_nearest_name_in_the_form_used(
    misspelt: str, nearest: str
) -> None:
    settings: dict[str, Any] = {misspelt: 3}
    with pytest.raises(SettingRefused) as refusal:
        EmbeddedBroker(**settings)
    assert str(refusal.value) == f"there is no setting {misspelt!r}; did you mean {nearest}?"


@pytest.mark.parametrize(
    ("setting", "value", "sentence"),
    [
        ("num_partitions", 2.5, "num.partitions must be a whole number, not 2.5."),
        ("num_partitions", True, "num.partitions must be a whole number, not True."),
        ("log_retention_ms", 2.5, "log.retention.ms must be a whole number, not 2.5."),
        ("advertised_listeners", 5, "advertised.listeners must be a text, not 5."),
        ("group_consumer_assignors", 5, "group.consumer.assignors must be a list, not 5."),
        ("data_dir", 5, "data_dir must be a path, not 5."),
    ],
)
def test_a_value_of_another_kind_is_refused(
    setting: str, value: float, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    settings: dict[str, Any] = {setting: value}
    with pytest.raises(SettingRefused) as refusal:
        EmbeddedBroker(**settings)
    assert str(refusal.value) == sentence
    assert not list(tmp_path.iterdir())


def test_a_broker_shows_its_address_and_whether_it_has_ended() -> None:
    broker = EmbeddedBroker()
    running = repr(broker)
    broker.close()
    assert (running, repr(broker)) == (
        f"<EmbeddedBroker at {broker.bootstrap}>",
        f"<EmbeddedBroker at {broker.bootstrap}, ended>",
    )


def test_an_address_of_ipv6_is_one_that_a_client_takes(
    lane_missing: Callable[[str], None],
) -> None:
    try:
        bind_socket("::1", 0).close()
    except OSError:
        lane_missing("this machine has no IPv6")
    with EmbeddedBroker(listeners="[::1]:0", apportion_metrics_listen="[::1]:0") as broker:
        cluster = Cluster(broker.bootstrap)
        assert cluster.call(DescribeClusterRequest()).brokers[0].host == "::1"
        cluster.close()
        assert broker.addresses == {"PLAINTEXT": broker.bootstrap}
        assert broker.metrics_address.startswith("[::1]:")


FORKS = """
import os
import sys
from apportion.broker import EmbeddedBroker
from apportion.client.cluster import Cluster

with EmbeddedBroker() as broker:
    if not (child := os.fork()):
        sys.exit(0)  # leaves the block, and runs what is to run at an end
    os.waitpid(child, 0)
    cluster = Cluster(broker.bootstrap)
    print(cluster.create_topic("t", 2).partitions)
    cluster.close()
    print(os.path.isdir(directory := broker._data_dir))
print(os.path.isdir(directory))
"""


def test_a_forked_process_that_ends_leaves_its_parents_broker_its_directory() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", FORKS], capture_output=True, text=True, timeout=60, check=False
    )
    assert (ended.stdout, ended.stderr) == ("2\nTrue\nFalse\n", "")
