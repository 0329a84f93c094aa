"""The drawings of docs/diagrams, from the tables that the code itself obeys."""

from collections.abc import Collection, Mapping
from enum import Enum
from itertools import pairwise
from typing import Any

from tools.drawing import Box, arrow, box, drawing, frame, text

from apportion.coord.classic import states as classic_group
from apportion.member.classic import states as classic_member
from apportion.member.consumer import states as consumer_member
from apportion.wire.group_states import GroupState
from tests.laws import SOURCE, STOREYS

Places = Mapping[str, tuple[float, float]]
"""A state as it is drawn -> column, row."""
Table = Mapping[Any, Collection[Enum]]
"""State -> the states that may follow."""
GROUP_PLACES: Places = {
    GroupState.EMPTY: (0, 0),
    GroupState.PREPARING_REBALANCE: (1, 0),
    GroupState.COMPLETING_REBALANCE: (2, 0),
    GroupState.STABLE: (1, 1),
}
OUTSIDE: Places = {
    "UNSUBSCRIBED": (0, 2.4),
    "STALE": (1, 2.4),
    "LEAVING": (2, 2.4),
    "FATAL": (3, 2.4),
}
CONSUMER_PLACES: Places = {
    "JOINING": (0.5, 1),
    "RECONCILING": (2.5, 0),
    "STABLE": (0.5, 0),
    "ACKNOWLEDGING": (2.5, 1),
    **OUTSIDE,
}
CLASSIC_PLACES: Places = {
    "JOINING": (0.5, 1),
    "SYNCING": (2.5, 1),
    "STABLE": (0.5, 0),
    "RECONCILING": (2.5, 0),
    **OUTSIDE,
}
ENDLESS = ("LEAVING", "FATAL")
"""States to which members may go from wherever they are in the group."""
COLUMN, ROW, WIDTH, HEIGHT, MARGIN = 250, 110, 190, 44, 24
BEND, DETOUR = 14, 70  # of two arrows between the same boxes; of an arrow that passes a box

HEARTBEAT = (  # file -> what happens there
    ("server/connection.py", "bytes arrive; frames are cut"),
    ("wire/table.py", "a frame becomes ConsumerGroupHeartbeatRequest"),
    ("node/node.py", "the request goes to the shard that has the group"),
    ("coord/consumer/heartbeat_api.py", "checks; refuses before anything is written"),
    ("coord/consumer/heartbeat.py", "admit, join or merge, new epoch, new target"),
    ("coord/consumer/reconcile.py", "the member goes one step toward its target"),
    ("coord/turn.py", "records are emitted, the reply is queued behind them"),
    ("node/flush_gate.py", "the reply is held until the records are on the disk"),
    ("server/connection.py", "the reply leaves, in the order of the requests"),
)
MICRO_BATCH = (
    ("spark/source.py", "Spark asks for the next offsets"),
    ("spark/membership/batch_member.py", "commits what Spark finished, adopts the new assignment"),
    ("member/batch/plan.py", "chooses an offset range for each owned partition"),
    ("spark/reading/slices.py", "executors read the range; nothing else is read"),
    ("spark/delta.py", "the writer is called with the rows"),
    ("spark/delta_sink/table.py", "fences are checked: rows that are there are dropped"),
    ("spark/delta_sink/files.py", "executors write Parquet files"),
    ("spark/delta_sink/table.py", "one Delta commit: the files and the new fences"),
)


def group_states() -> str:
    """Return the states of a classic group."""
    return _states(GROUP_PLACES, classic_group.NEXT)


def consumer_states() -> str:
    """Return the states of a member of a consumer group (KIP-848)."""
    return _states(CONSUMER_PLACES, consumer_member.NEXT)


def classic_states() -> str:
    """Return the states of a member of a classic group."""
    return _states(CLASSIC_PLACES, classic_member.NEXT)


def rooms() -> str:
    """Return the floors of the package, the highest first."""
    width, parts = 860.0, []
    for row, (floor, names) in enumerate(reversed(list(enumerate(STOREYS)))):
        y = MARGIN + 22 + row * 54
        parts.append(text(MARGIN, y + 5, f"floor {floor}", 13, anchor="start"))
        there = [
            name
            for name in names.split()
            if (SOURCE / name).exists() or (SOURCE / f"{name}.py").exists()
        ]
        step = (width - 110 - MARGIN) / len(there)
        parts += [
            box(Box(100 + step * (column + 0.5), y, step - 12, 40, name))
            for column, name in enumerate(there)
        ]
    return drawing(width, 2 * MARGIN + 54 * len(STOREYS) - 10, parts)


def heartbeat() -> str:
    """Return the path of a ConsumerGroupHeartbeat through a broker."""
    return _path(HEARTBEAT)


def micro_batch() -> str:
    """Return the path of a micro-batch from Spark's question to the Delta commit."""
    return _path(MICRO_BATCH)


def _path(stations: tuple[tuple[str, str], ...]) -> str:
    missing = [file for file, _ in stations if not (SOURCE / file).exists()]
    assert not missing, f"a station is not there: {missing}"
    boxes = [
        Box(260, 46 + 70 * row, 460, 48, line, file) for row, (file, line) in enumerate(stations)
    ]
    arrows = [arrow(start, end) for start, end in pairwise(boxes)]
    return drawing(520, 2 * 46 + 70 * (len(stations) - 1), [box(shape) for shape in boxes] + arrows)


def _states(places: Places, table: Table) -> str:
    """Return the states of a machine as a drawing.

    Transitions that all states of the group share are written once, in a frame around these states.
    """
    following = {_title(state): {_title(after) for after in then} for state, then in table.items()}
    assert set(following) | set().union(*following.values()) == set(places), "a state has no place"
    boxes = {
        name: Box(
            MARGIN + WIDTH / 2 + COLUMN * column,
            MARGIN + 20 + HEIGHT / 2 + ROW * row,
            WIDTH,
            HEIGHT,
            name,
        )
        for name, (column, row) in places.items()
    }
    mortal = [name for name in places if following.get(name, set()).issuperset(ENDLESS)]
    ends = set.intersection(*(following[name] for name in mortal)) if mortal else set()
    pairs = [
        (name, then)
        for name in places
        for then in sorted(following.get(name, ()), key=list(places).index)
        if name not in mortal or then not in ends
    ]
    parts = [box(shape) for shape in boxes.values()]
    parts += [
        arrow(boxes[start], boxes[end], _bend(boxes, pairs, start, end)) for start, end in pairs
    ]
    width = max(shape.x for shape in boxes.values()) + WIDTH / 2 + MARGIN
    height = max(shape.y for shape in boxes.values()) + HEIGHT / 2 + MARGIN + 20
    if mortal:
        shown = [boxes[name] for name in mortal]
        left, top = (
            min(shape.x for shape in shown) - WIDTH / 2 - 14,
            min(shape.y for shape in shown) - HEIGHT / 2 - 14,
        )
        right, bottom = (
            max(shape.x for shape in shown) + WIDTH / 2 + 14,
            max(shape.y for shape in shown) + HEIGHT / 2 + 34,
        )
        names = ", ".join(name for name in places if name in ends)
        parts.append(frame(left, top, right - left, bottom - top))
        parts.append(
            text(right - 14, bottom - 10, f"From each of these also to: {names}.", 12, anchor="end")
        )
    return drawing(width, height, parts)


def _title(state: Enum) -> str:
    """Return the name that Kafka's tools show, where there is one."""
    return str(state.value) if str(state.value)[:1].isupper() else state.name


def _bend(
    boxes: Mapping[str, Box], pairs: Collection[tuple[str, str]], start: str, end: str
) -> float:
    """Return how far an arrow swings out: round a box on its way, or beside the arrow back."""
    one, other = boxes[start], boxes[end]
    between = [
        shape
        for shape in boxes.values()
        if shape not in (one, other)
        and shape.y == one.y == other.y
        and min(one.x, other.x) < shape.x < max(one.x, other.x)
    ]
    if between:
        return -DETOUR * len(between) if one.x > other.x else DETOUR * len(between)
    return BEND if (end, start) in pairs else 0
