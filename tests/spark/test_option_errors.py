"""What parses a part of the options raises OptionError itself, with the whole sentence."""

from collections.abc import Callable

import pytest

from apportion.member.batch.topic_choice import TopicChoice
from apportion.spark.options.chosen_topics import ChosenTopics
from apportion.spark.options.security import query_security
from apportion.spark.options.starting_offsets import batch_start, stream_start
from apportion.spark.options.values import OptionError


@pytest.mark.parametrize("parse", [stream_start, batch_start])
@pytest.mark.parametrize(
    ("option", "text", "sentence"),
    [
        (
            "startingoffsets",
            "5",
            "option startingOffsets is '5': give earliest, ",
        ),
        (
            "startingoffsetsbytimestampstrategy",
            "nearest",
            "option startingOffsetsByTimestampStrategy is 'nearest': give error or latest.",
        ),
        (
            "startingoffsetsbytimestamp",
            "{}x",
            "option startingOffsetsByTimestamp is '{}x': give JSON such as ",
        ),
    ],
)
def test_a_beginning_that_cannot_be_read_is_an_option_error(
    parse: Callable[[dict[str, str], Callable[[str], None], ChosenTopics], object],
    option: str,
    text: str,
    sentence: str,
) -> None:
    topics = ChosenTopics("subscribe", TopicChoice(("flights",)))
    with pytest.raises(OptionError) as refused:
        parse({option: text}, lambda _name: None, topics)
    assert str(refused.value).startswith(sentence)


def test_a_wrong_security_is_an_option_error_without_its_cause() -> None:
    with pytest.raises(OptionError) as refused:
        query_security({"kafka.security.protocol": "x"})
    assert str(refused.value).startswith("option kafka.security.protocol must be one of ")
    assert refused.value.__suppress_context__
