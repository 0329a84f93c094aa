"""The queries of the batch rule to its membership, the cluster and the query's writers.

Those that it shares with other rules are in `member.queries`. The driver that answers is
`spark.membership.batch_member`, `sim.actors.worker` or a test.
"""

from dataclasses import dataclass

from apportion.member.batch.span import Span
from apportion.rules import RuleQuery


class NotReady(Exception):
    """The next batch cannot be planned now; a later attempt may succeed."""


class NotReadyForATime(NotReady):
    """The rule that raises it decides by itself how long the wait may last."""


@dataclass(frozen=True, slots=True)
class ReadWriterReport(RuleQuery):
    """Read what the query's writers reported of the batch `previous`. Answer: WriterReport."""

    previous: Span


@dataclass(frozen=True, slots=True)
class DeleteOldReports(RuleQuery):
    """Delete writers' reports that no restart needs, as the batch after `previous` is planned.

    Answer: None.
    """

    previous: Span


@dataclass(frozen=True, slots=True)
class AwaitNewTarget(RuleQuery):
    """Wait until the member has a target that it has not adopted, or the timeout. Answer: None."""

    timeout_ms: int


@dataclass(frozen=True, slots=True)
class AwaitNextAttempt(RuleQuery):
    """Wait until the timeout, before a query's next attempt to plan a batch.

    The driver may end the wait as soon as the member's state changes. Answer: None.
    """

    timeout_ms: int


@dataclass(frozen=True, slots=True)
class StartMembership(RuleQuery):
    """Join the group, unless the member has begun to. Answer: None, at once."""


@dataclass(frozen=True, slots=True)
class EndMembership(RuleQuery):
    """Leave the group for good, if the member has joined. Answer: None, when it has left."""


@dataclass(frozen=True, slots=True)
class GroupSetting(RuleQuery):
    """Read a setting of the query's group, its own or its brokers'.

    Answer: str; None where groups have no such setting, as before Kafka 4.0, or may not tell it.
    """

    name: str


@dataclass(frozen=True, slots=True)
class BrokerSetting(RuleQuery):
    """Read a setting of a broker. Answer: str; None if the broker does not tell it."""

    name: str
