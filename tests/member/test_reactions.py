"""How a client reacts to the codes of Kafka, and which errors are permanent."""

from apportion.errors import Code, Refused, Unanswerable
from apportion.member.reactions import LEADER, Reaction, is_permanent, reaction


def test_every_code_has_a_reaction_and_what_no_row_names_is_the_callers() -> None:
    assert reaction("ConsumerGroupHeartbeat", Code.FENCED_MEMBER_EPOCH) is Reaction.REJOIN
    assert reaction("OffsetCommit", Code.FENCED_MEMBER_EPOCH) is Reaction.RAISE
    assert reaction("OffsetCommit", Code.STALE_MEMBER_EPOCH) is Reaction.RETRY_WITH_NEW_EPOCH
    assert reaction("Fetch", Code.NOT_LEADER_OR_FOLLOWER) is Reaction.REFRESH_METADATA
    assert reaction("Unheard", Code.NOT_COORDINATOR) is Reaction.FIND_COORDINATOR
    assert reaction("Fetch", 12_345) is Reaction.RAISE
    assert all(
        reaction(api, Code.NONE) is Reaction.ACCEPT
        for api in ("Fetch", "Metadata", "FindCoordinator", "OffsetFetch")
    )


def test_an_error_is_permanent_where_kafka_does_not_call_it_retriable() -> None:
    assert not is_permanent(Unanswerable("no broker"))
    assert is_permanent(Refused(Code.TOPIC_AUTHORIZATION_FAILED))
    # No row of the table retries it, and a later operation may succeed.
    assert reaction("Fetch", Code.CORRUPT_MESSAGE) is Reaction.RAISE
    assert not is_permanent(Refused(Code.CORRUPT_MESSAGE))


def test_no_error_that_a_request_to_a_leader_retries_is_permanent() -> None:
    assert not any(is_permanent(Refused(code)) for code in LEADER if code is not Code.NONE)
