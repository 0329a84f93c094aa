"""Kafka's own assignors in a process beside us, asked for what they would give: the driver of
Oracle.java.
"""

from pathlib import Path

from apportion.assign.by_name import ClusterTopics, Given, Subscription
from apportion.member.assignors.serde import (
    decode_assignment,
    encode_assignment,
    encode_subscription,
)
from tests.kafka.java import QUICK_START, JavaProgram


class Oracle(JavaProgram):
    """Java's assignors. jars: of Apache Kafka."""

    def __init__(self, jars: Path) -> None:
        super().__init__(Path(__file__).with_name("Oracle.java"), jars, *QUICK_START)

    def assign(
        self, name: str, cluster: ClusterTopics, blobs: dict[str, tuple[bytes, str | None]]
    ) -> dict[str, Given]:
        """What Java's assignor of that name gives. blobs: the subscription and instance id of each
        member.
        """
        for topic, shape in cluster.items():
            racks = ",".join("+".join(each) or "." for each in shape.racks)
            self.tell(f"topic {topic} {shape.partitions} {racks}".strip())
        for member, (blob, instance_id) in blobs.items():
            self.tell(f"member {member} {instance_id or '-'} {blob.hex()}")
        self.tell(f"assign {name}")
        given = {}
        while (words := self.answer().split())[0] != "done":
            given[words[1]] = decode_assignment(bytes.fromhex(words[2]))
        return given

    def user_data_after(self, name: str, generation: int, given: Given) -> bytes | None:
        """The user data of Java's assignor after it was given this in that generation."""
        self.tell(f"told {name} {generation} {encode_assignment(given).hex()}")
        _, data = self.answer().split()
        return None if data == "-" else bytes.fromhex(data)

    def subscription_bytes(self, subscription: Subscription, version: int) -> bytes:
        """The subscription, said by us, read by Java, and said by Java in that version."""
        self.tell(f"say {version} {encode_subscription(subscription).hex()}")
        return bytes.fromhex(self.answer().split()[1])
