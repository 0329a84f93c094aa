"""The application's rebalance listener, as the rule of a consumer calls it."""

from apportion.member.records.queries import CallListener, ListenerName
from apportion.rules import Rule
from apportion.topics import TopicIdPartition


class RebalanceListener:
    """The calls of a listener, and the first error among them since it was last raised.

    A listener that raises ends neither the revocation nor the start of partitions, as in Kafka's
    consumer: its error waits until the assignment is applied.
    """

    def __init__(self) -> None:
        self._error: Exception | None = None

    def call(self, name: ListenerName, partitions: tuple[TopicIdPartition, ...]) -> Rule[None]:
        """Call the listener of that name, and keep its error."""
        error: Exception | None = yield CallListener(name, partitions)
        self._error = self._error or error

    def raise_error(self) -> None:
        """Raise the error of a listener, and forget it."""
        error, self._error = self._error, None
        if error is not None:
            raise error
