"""The classes that `@message` makes."""

from typing import Any

import pytest

from apportion.wire.fields import int32, message, string


def declared() -> Any:
    """Return a message class of which no value was made."""

    @message()
    class Sized:
        """A name with a size."""

        name: str = string(default="none")
        size: int = int32()

    return Sized


def test_the_first_value_of_a_class_is_made_like_every_later_one() -> None:
    kind = declared()
    first, second = kind(size=1), kind(size=1)
    assert first == second
    assert (first.name, first.size) == (second.name, second.size) == ("none", 1)


def test_the_first_value_of_a_class_takes_declared_fields_alone_by_name() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'colour'"):
        declared()(colour="red")
    with pytest.raises(TypeError, match="positional argument"):
        declared()("name")
