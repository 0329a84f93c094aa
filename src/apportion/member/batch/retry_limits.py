"""The time limits of a query's retries, and the words for them in its log."""

from apportion.errors import Code, Refused, Unanswerable
from apportion.member.batch.queries import NotReadyForATime
from apportion.member.reactions import is_permanent

# A query that has never had an assignment fails after this time; with an error that no retry mends,
# after a quarter of it.
FIRST_ASSIGNMENT_TIMEOUT_S = 60.0
# A query that has had an assignment fails after this time, where waiting longer cannot help. With
# trigger(availableNow=True) a query also fails after it, before any assignment, if it cannot read
# the present ends of its topics.
NO_PROGRESS_TIMEOUT_S = 120.0
NO_CONNECTION_REMEDY = (
    "; see that a broker listens there and can be reached from this host, or give another "
    "kafka.bootstrap.servers"
)


def retry_limit_s(
    error: Exception, *, has_assignment: bool, must_end: bool, join_limit_s: float = 0.0
) -> float | None:
    """Return how long a query retries before this error ends it; None for ever.

    A query that never had an assignment has a limit for every error. Later, a broker that cannot be
    reached is waited for without one, as by Kafka's own clients.

    must_end: the query reads up to fixed ends, as with trigger(availableNow=True). join_limit_s:
    how long the coordinator may hold back the response to a pending JoinGroup.
    """
    if isinstance(error, NotReadyForATime):
        return None
    # A permanent error gets some time, too: an ACL or a topic may be about to be created.
    if not has_assignment:
        share = 4 if is_permanent(error) else 1
        return max(FIRST_ASSIGNMENT_TIMEOUT_S / share, join_limit_s)
    return NO_PROGRESS_TIMEOUT_S if is_permanent(error) or must_end else None


def end_limit_s(error: Exception) -> float:
    """Return how long a query looks for the ends of its topics, where that ends with this error."""
    # A topic that was just created is not known to every broker at once.
    is_missing = isinstance(error, Refused) and error.code is Code.UNKNOWN_TOPIC_OR_PARTITION
    return FIRST_ASSIGNMENT_TIMEOUT_S / 4 if is_missing else NO_PROGRESS_TIMEOUT_S


def remedy(error: Exception) -> str:
    """Return what to do about the error, for the end of a sentence; "" if it is not known.

    Nor where the error says it itself.
    """
    is_outage = isinstance(error, Unanswerable) and not error.has_remedy
    return NO_CONNECTION_REMEDY if is_outage else ""


def waiting_text(error: Exception, limit_s: float | None) -> str:
    """Return the error as a log line says it, for a broker also how long the query waits."""
    if not isinstance(error, Unanswerable):
        return str(error)
    if limit_s is None:
        return f"{error}; the query waits until a broker answers{remedy(error)}"
    return (
        f"{error}; the query tries again, and ends after {limit_s:.0f} s without an answer"
        f"{remedy(error)}"
    )
