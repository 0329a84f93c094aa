"""Units of work: the parts of a step, each of which is done as a whole or undone.

A step is a sequence of units of work: one request, one held reply, one deadline, one delayed fetch,
one shard that learns of topics or of closed connections. A unit is atomic, as a database
transaction is: it is done as a whole, or `Node.give_up` undoes it. **A step that fails leaves no
trace that later steps could stumble over.** A steady heartbeat is no unit of work, since it changes
nothing that would have to be undone (`Coordinators.steady_response_or_none`).

- Its writes are cut off. A writer takes a savepoint before it writes (`FlushGate.begin_write`) and
  is read again from its files; every shard that took part is replayed from its log
  (`node/rollback.py`).
- Its replies are taken back. The request of the unit fails; other requests that it had answered,
  and those that a replayed shard had parked, get COORDINATOR_NOT_AVAILABLE once, upon which clients
  retry. Afterwards nothing refers to any of them: no delayed fetch, no part of a split request, no
  deadline.
- Earlier units stand. Later ones are not lost: they are in `Node._units`, in
  `DelayedFetches.ready` or among the deadlines until they begin, and the deadline RETRY runs them:
  at once, or after a pause where failures follow each other. A unit that always fails is tried
  once a second, and delays neither the flush nor any other unit.
- All other changes of a unit must happen in one place that cannot fail, or be safe to do twice.

If an error strikes while a flush is being put together, nobody knows what the next flush would
cover; so that counts as a flush that the disk refused. If the rollback itself fails, nothing is
known any more, and the broker ends.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from apportion.machine import Arrived, Instant


class UnitOfWork(NamedTuple):
    """A part of a step that is done as a whole or undone.

    request: the one that fails if the unit does; None for work of the broker's own.
    """

    request: Arrived | None
    run: Callable[[Any, Instant], None]
    argument: Any
