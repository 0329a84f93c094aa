"""Groups for the assignors that have one rule of Kafka's: `range` and `roundrobin`."""

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st

from apportion.assign.subscriptions import Subscriptions


def assigned(
    assignment: Callable[[Any, Subscriptions], Any], sizes: list[int], wants: list[list[int]]
) -> list[int]:
    """The member of each partition. wants: the topics of each member."""
    result: list[int] = assignment(
        np.cumsum([0, *sizes]).astype(np.int32), Subscriptions.of(wants)
    ).tolist()
    return result


@st.composite
def groups(draw: st.DrawFn) -> tuple[list[int], list[list[int]]]:
    """The sizes of topics, and the topics of each member."""
    sizes = draw(st.lists(st.integers(0, 12), max_size=5))
    topics = st.lists(st.integers(0, len(sizes) - 1), unique=True) if sizes else st.just([])
    return sizes, draw(st.lists(topics, max_size=6))
