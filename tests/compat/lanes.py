"""Which foreign clients are run, and with what: a row for each client and assignor. docs/clients.md
shows it.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Lane:
    """One client with one of its assignors, or with the strategy "consumer", which is KIP-848."""

    client: str
    driver: str
    strategy: str
    static: bool = True
    """Whether the client has static members, which outlive a restart."""

    stays: bool = True
    """Whether a static member that is closed stays in the group, as it does in Kafka's own
    client.
    """

    again: int = 0
    """How often a static leader that has come back asks for one more rebalance, on every broker."""

    adapted: bool = False
    """Whether the assignor is not the client's own but the one in apportion.adapters."""

    @property
    def strategy_option(self) -> str:
        """The strategy as the driver is told it."""
        return f"apportion {self.strategy}" if self.adapted else self.strategy

    def __str__(self) -> str:
        return f"{self.client}-{self.strategy_option.replace(' ', '-')}"


LANES = [
    *(
        Lane("confluent-kafka", "confluent.py", each)
        for each in ("range", "roundrobin", "cooperative-sticky")
    ),
    Lane("confluent-kafka", "confluent.py", "consumer", static=False),
    *(
        Lane("kafka-python", "kafka_python.py", each)
        for each in ("range", "roundrobin", "sticky", "cooperative-sticky")
    ),
    *(
        Lane("kafka-python", "kafka_python.py", each, adapted=True)
        for each in ("sticky", "cooperative-sticky")
    ),
    *(Lane("aiokafka", "aio.py", each) for each in ("range", "roundrobin", "sticky")),
    *(Lane("aiokafka", "aio.py", each, adapted=True) for each in ("sticky", "cooperative-sticky")),
    Lane("kafkajs", "kafkajs.mjs", "RoundRobinAssigner", static=False),
    *(
        Lane("@platformatic/kafka", "platformatic.mjs", each, stays=False)
        for each in ("roundrobin", "cooperative-sticky")
    ),
    Lane("@platformatic/kafka", "platformatic.mjs", "consumer", static=False),
    *(Lane("franz-go", "go", each) for each in ("range", "roundrobin", "sticky")),
    Lane("franz-go", "go", "cooperative-sticky", again=1),
    Lane("franz-go", "go", "consumer", static=False),
    *(Lane("sarama", "go", each) for each in ("range", "roundrobin", "sticky")),
    *(Lane("kafka-go", "go", each, static=False) for each in ("range", "roundrobin")),
]
ONE_EACH = list(
    {(lane.client, lane.strategy == "consumer"): lane for lane in LANES[::-1]}.values()
)[::-1]
"""A lane for each client and protocol: the first of its assignors."""
