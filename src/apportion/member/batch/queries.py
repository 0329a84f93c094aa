"""The queries of `BatchPlanner` to its membership, the cluster and the query's writers.

Those that it shares with other rules are in `member.queries`. The driver that answers is
`spark.batch_member`, `sim.actors.worker` or a test.
"""

from dataclasses import dataclass

from apportion.member.batch.span import Span
from apportion.rules import RuleQuery


class NotReady(Exception):
    """The next batch cannot be planned now; a later attempt may succeed."""


class NotReadyForATime(NotReady):
    """The rule that raises it counts the time by itself, and ends the wait."""


@dataclass(frozen=True, slots=True)
class ReadWriterReport(RuleQuery):
    """Read what the query's writers reported of the batch `previous`. Answer: WriterReport."""

    previous: Span


@dataclass(frozen=True, slots=True)
class StartMembership(RuleQuery):
    """Join the group, unless the member has begun to. Answer: None, at once."""


@dataclass(frozen=True, slots=True)
class EndMembership(RuleQuery):
    """Leave the group for good, if the member has joined. Answer: None, when it has left."""


@dataclass(frozen=True, slots=True)
class SessionTimeout(RuleQuery):
    """Read the session timeout in ms. Answer: int.

    group.consumer.session.timeout.ms of the broker, or session.timeout.ms of a classic member.
    """
