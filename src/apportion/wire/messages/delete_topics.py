"""DeleteTopics: delete topics with their records."""

from apportion.wire.fields import array, int16, int32, message, string, uuid


@message()
class DeleteTopicState:
    """One topic, by its name or by its id."""

    name: str | None = string(nullable=0, default=None)
    topic_id: bytes = uuid()


@message(key=20, versions=range(1, 7), flexible=4, type="request")
class DeleteTopicsRequest:
    """Delete these topics: `topic_names` up to version 5, `topics` from version 6 on."""

    topics: tuple[DeleteTopicState, ...] = array(DeleteTopicState, since=6)
    topic_names: tuple[str, ...] = array(string(), until=5, ignorable=True)
    timeout_ms: int = int32()


@message()
class DeletableTopicResult:
    """The error of one topic, or none."""

    name: str | None = string(nullable=6)
    topic_id: bytes = uuid(since=6, ignorable=True)
    error_code: int = int16()
    error_message: str | None = string(since=5, nullable=5, default=None, ignorable=True)


@message(key=20, versions=range(1, 7), flexible=4, type="response")
class DeleteTopicsResponse:
    """The results of all topics."""

    throttle_time_ms: int = int32(ignorable=True)
    responses: tuple[DeletableTopicResult, ...] = array(DeletableTopicResult)
