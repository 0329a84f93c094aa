"""Kafka's own assignors in a process beside us, asked for what they would give: the driver of
Oracle.java.
"""

import subprocess
from pathlib import Path

from apportion.assign.by_name import ClusterTopics, Given, Subscription
from apportion.member.assignors.serde import (
    decode_assignment,
    encode_assignment,
    encode_subscription,
)
from apportion.testing.kafka import java_program


class Oracle:
    """Java's assignors, from `with` to its end. jars: of Apache Kafka."""

    def __init__(self, jars: Path) -> None:
        program = Path(__file__).with_name("Oracle.java")
        command = [
            java_program(),
            "-Xshare:auto",
            "-XX:TieredStopAtLevel=1",
            "-cp",
            f"{jars.resolve()}/*",
            str(program),
        ]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )

    def __enter__(self) -> "Oracle":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()  # the end of its input is its end

    def assign(
        self, name: str, cluster: ClusterTopics, blobs: dict[str, tuple[bytes, str | None]]
    ) -> dict[str, Given]:
        """What Java's assignor of that name gives. blobs: the subscription and instance id of each
        member.
        """
        for topic, shape in cluster.items():
            racks = ",".join("+".join(each) or "." for each in shape.racks)
            self._ask(f"topic {topic} {shape.partitions} {racks}".strip())
        for member, (blob, instance_id) in blobs.items():
            self._ask(f"member {member} {instance_id or '-'} {blob.hex()}")
        self._ask(f"assign {name}")
        given = {}
        while (words := self._heard())[0] != "done":
            given[words[1]] = decode_assignment(bytes.fromhex(words[2]))
        return given

    def user_data_after(self, name: str, generation: int, given: Given) -> bytes | None:
        """The user data of Java's assignor after it was given this in that generation."""
        self._ask(f"told {name} {generation} {encode_assignment(given).hex()}")
        _, data = self._heard()
        return None if data == "-" else bytes.fromhex(data)

    def subscription_bytes(self, subscription: Subscription, version: int) -> bytes:
        """The subscription, said by us, read by Java, and said by Java in that version."""
        self._ask(f"say {version} {encode_subscription(subscription).hex()}")
        return bytes.fromhex(self._heard()[1])

    def _ask(self, line: str) -> None:
        assert self._process.stdin
        self._process.stdin.write(f"{line}\n".encode())

    def _heard(self) -> list[str]:
        assert self._process.stdin
        assert self._process.stdout
        assert self._process.stderr
        self._process.stdin.flush()
        line = self._process.stdout.readline().decode().split()
        assert line, f"Java ended: {self._process.stderr.read().decode()}"
        return line
