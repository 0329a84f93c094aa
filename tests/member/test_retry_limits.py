"""How long a query retries an error, by its kind and by how far the query has come."""

import pytest

from apportion.client.connection import Misdirected
from apportion.errors import Code, Refused, Unanswerable
from apportion.member.batch.membership import AssignmentIncomplete
from apportion.member.batch.queries import NotReady, NotReadyForATime
from apportion.member.batch.retry_limits import remedy, retry_limit_s, waiting_text

GONE = Unanswerable("no connection to the broker at b:9092: Connection refused")
DENIED = Refused(Code.GROUP_AUTHORIZATION_FAILED)
MOVED = Refused(Code.NOT_COORDINATOR)


@pytest.mark.parametrize(
    ("error", "has_assignment", "must_end", "limit_s"),
    [
        (GONE, False, False, 60),
        (MOVED, False, False, 60),
        (NotReady("joining"), False, False, 60),
        (DENIED, False, False, 15),
        (GONE, True, False, None),
        (MOVED, True, False, None),
        (DENIED, True, False, 120),
        (GONE, True, True, 120),
        (AssignmentIncomplete("more to come"), False, True, None),
        (NotReadyForATime("members that may be leaving"), False, False, None),
    ],
)
def test_an_error_is_retried_for_as_long_as_that_may_help(
    error: Exception, has_assignment: bool, must_end: bool, limit_s: float | None
) -> None:
    assert retry_limit_s(error, has_assignment=has_assignment, must_end=must_end) == limit_s


def test_a_pending_join_may_take_longer_than_other_first_attempts() -> None:
    assert retry_limit_s(GONE, has_assignment=False, must_end=False, join_limit_s=300) == 300


def test_an_outage_that_names_its_remedy_is_given_no_second_one() -> None:
    wants_login = Misdirected("closed by the broker; see that security.protocol is right")
    assert (remedy(wants_login), waiting_text(wants_login, None)) == (
        "",
        f"{wants_login}; the query waits until a broker answers",
    )


def test_the_log_says_for_how_long_a_query_waits_for_a_broker() -> None:
    remedy = (
        "; see that a broker listens there and can be reached from this host, or give another "
        "kafka.bootstrap.servers"
    )
    assert [waiting_text(GONE, None), waiting_text(GONE, 60), waiting_text(MOVED, 60)] == [
        f"{GONE}; the query waits until a broker answers{remedy}",
        f"{GONE}; the query tries again, and ends after 60 s without an answer{remedy}",
        str(MOVED),
    ]
