"""The regular expressions to which members of a consumer group subscribe (KIP-848).

A member may send SubscribedTopicRegex beside topic names or in their place. Its syntax is RE2's,
and it has to match the whole name of a topic. Which topics it matches is the same for all members
that sent it, so the group saves one resolution for each expression (record 16).

To match thousands of names can take long, so no request waits for it. A heartbeat that finds a
refresh due begins the computation `ResolveExpressions`, which the driver runs beside the machine;
its result comes as an event (decision 46). Until then the expression stands for no topics, and the
member joins with what it has. All expressions of a group are resolved together, so that one change
of the topics costs the group one epoch.

A result may be large: a thousand expressions may match ten thousand topics each. So it is saved in
steps of a bounded number of topic names, a millisecond apart, between which the broker serves
others. A step that changes a subscription bumps the epoch itself. One bump behind the last step
would be lost if the broker crashed before: what is saved by then is no change any more.

RE2 matches in time linear in the name and bounds the memory of an expression, so no expression can
stop the broker. What is too large for that bound is refused like one that is wrong.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from apportion.coord import records
from apportion.coord.consumer.beat import Beat
from apportion.coord.consumer.state import ConsumerGroup, ConsumerGroupMember
from apportion.coord.consumer.targets import metadata_hash
from apportion.coord.records import fits_in_key
from apportion.coord.turn import Turn
from apportion.deadlines import Key
from apportion.errors import Code, Refused
from apportion.lazy_imports import lazy_module
from apportion.machine import Access
from apportion.topics import Topics
from apportion.wire.records.groups import ConsumerGroupRegularExpressionValue

if TYPE_CHECKING:
    import re2
else:
    re2 = lazy_module("re2")

# About ten thousand instructions. The thread that matches gives Python's lock back after each name,
# so no name may take long. google-re2 keeps the last 128 expressions, each within this bound.
MAX_EXPRESSION_MEMORY_BYTES = 256 * 1024
# Kafka's figure: changes of the topics within this time are one refresh.
REFRESH_AT_LEAST_MS = 10_000
# More are not begun at a time, so that groups which come and go cannot pile computations up.
MOST_AT_ONCE = 100
# Different ones in a group. Most groups have one, some have one for each member.
MOST_EXPRESSIONS = 1_000
# Names of topics in one step. An expression is never divided: what it matches is one record.
MOST_NAMES_AT_ONCE = 10_000
RESOLUTIONS = "resolutions"
"""The deadline of a group at which the next of its resolutions are saved."""

Resolutions = dict[str, tuple[str, ...]]
"""expression -> the names of the topics that it matches, in order"""


@dataclass(slots=True, frozen=True)
class ResolveExpressions:
    """The computation to find the topics that match a group's expressions.

    topics: all of the cluster. access: that of the member whose heartbeat has begun it; what it may
    not know of is not matched. None: it may know of all.
    """

    is_foreign: ClassVar[bool] = False

    group_id: str
    expressions: tuple[str, ...]
    topics: Topics
    access: Access | None = None

    def run(self) -> Resolutions:
        """Return the names of the topics that each expression matches."""
        access = self.access
        names = [
            topic.name
            for topic in self.topics
            if access is None or access.may_describe_topic(topic.name)
        ]
        return {expression: matching(expression, names) for expression in self.expressions}


def matching(expression: str, names: Iterable[str]) -> tuple[str, ...]:
    """Return those of the topic names that the expression matches as a whole.

    An expression that RE2 refuses matches none: another coordinator may have accepted it.
    """
    try:
        compiled = re2.compile(expression, _options())
    except re2.error:
        return ()
    return tuple(name for name in names if compiled.fullmatch(name) is not None)


def check_expression(expression: str | None) -> None:
    """Refuse a SubscribedTopicRegex that cannot be used. None and "" are no expression.

    Errors: INVALID_REGULAR_EXPRESSION, with the reason.
    """
    if expression and (fault := expression_fault_or_none(expression)) is not None:
        raise Refused(Code.INVALID_REGULAR_EXPRESSION, f"SubscribedTopicRegex is {fault}.")


def expression_fault_or_none(expression: str) -> str | None:
    """Return why an expression cannot be used, as the end of a sentence; None if it can."""
    if not fits_in_key(expression):
        return "too long"
    try:
        re2.compile(expression, _options())
    except re2.error as error:
        return f"no regular expression of RE2: {_reason(error)}"
    return None


def check_new_expression(
    group: ConsumerGroup | None, beat: Beat, known: ConsumerGroupMember | None
) -> None:
    """Refuse a heartbeat whose expression is new to its group and cannot be used.

    known: the member that sent it, or the one that it replaces.
    Errors: INVALID_REGULAR_EXPRESSION, with the reason.
    """
    counts = {} if group is None else group.saved.expression_counts
    # As in Kafka: what a member of the group has already is not checked again.
    if not beat.regex or beat.regex in counts:
        return
    check_expression(beat.regex)
    before = None if known is None else known.metadata.subscribed_topic_regex
    is_one_more = counts.get(before or "") != 1  # else it takes the place of the older one
    if len(counts) >= MOST_EXPRESSIONS and is_one_more:
        raise Refused(
            Code.INVALID_REGULAR_EXPRESSION,
            f"Group {beat.group_id} has {len(counts)} different expressions, and more are not "
            "allowed: use one that another member has, or topic names.",
        )


def forget_if_unused(turn: Turn, group: ConsumerGroup, expression: str | None) -> None:
    """Delete the resolution of an expression if no member of the group has it any more."""
    saved = group.saved
    if (
        expression is not None
        and expression in saved.resolutions
        and expression not in saved.expression_counts
    ):
        turn.emit(records.regular_expression(group.group_id, expression, None))
        # As in Kafka, the first expression of a group is resolved at once.
        if not saved.resolutions:
            group.live.resolved_ms = None


def refresh_if_due(turn: Turn, group: ConsumerGroup, access: Access | None) -> None:
    """Begin to resolve the group's expressions if that is due, at a heartbeat of any member.

    As in Kafka they match, for all members, what the sender of that heartbeat may know of.
    """
    if is_refresh_due(turn, group):
        expressions = tuple(group.saved.expression_counts)
        turn.compute(ResolveExpressions(group.group_id, expressions, turn.topics, access))


def is_refresh_due(turn: Turn, group: ConsumerGroup) -> bool:
    """Return whether the group's expressions are to be resolved now, and can be.

    They are if one was never resolved, if the topics have changed, or after
    `group.consumer.regex.refresh.interval.ms`; but not within ten seconds of the last time.
    """
    live = group.live
    # Most groups have none.
    if (
        not group.saved.expression_counts
        or live.unsaved_resolutions
        or group.group_id in turn.computing[ResolveExpressions]
        or len(turn.computing[ResolveExpressions]) >= MOST_AT_ONCE
        or refresh_wait_ms(turn, group) > 0
    ):
        return False
    return (
        has_unresolved(group)
        # After a start of the broker nothing is known of the last time, so the topics are compared.
        or live.resolved_topics is not turn.topics
        or live.resolved_ms is None
        or turn.now.mono_ms - live.resolved_ms
        > turn.settings.group_consumer_regex_refresh_interval_ms
    )


def refresh_wait_ms(turn: Turn, group: ConsumerGroup) -> int:
    """Return how long it takes until the group's expressions may be resolved again."""
    resolved_ms = group.live.resolved_ms
    if resolved_ms is None:
        return 0
    return max(0, resolved_ms + REFRESH_AT_LEAST_MS + 1 - turn.now.mono_ms)


def has_unresolved(group: ConsumerGroup) -> bool:
    """Return whether a member of the group has an expression that was not resolved yet."""
    saved = group.saved
    # By number, because that is fast: each resolution is of an expression in use.
    return len(saved.expression_counts) > len(saved.resolutions)


def changes_subscription(before: tuple[str, ...] | None, matched: tuple[str, ...]) -> bool:
    """Return whether a resolution changes a subscription, so that the group must assign again.

    before: the topics that the expression matched; None if it was never resolved.
    """
    return matched != (before or ())


def save_resolutions(turn: Turn, computation: ResolveExpressions, resolved: Resolutions) -> None:
    """Begin to save what a computation has found."""
    group = turn.ledger.consumer_group_or_none(computation.group_id)
    if group is None:
        return
    # Of another coordinator's log, perhaps: ours keeps none that is not in use.
    for expression in list(group.saved.resolutions):
        forget_if_unused(turn, group, expression)
    group.live.resolved_topics = computation.topics
    group.live.unsaved_resolutions.extend(resolved.items())
    save_some_resolutions(turn, group)


def continue_saving(turn: Turn, key: Key) -> None:
    """Save the next part of a large result, if its group still waits for that."""
    group = turn.ledger.consumer_group_or_none(key[1])
    if group is not None and group.live.unsaved_resolutions:
        save_some_resolutions(turn, group)


def save_some_resolutions(turn: Turn, group: ConsumerGroup) -> None:
    """Save a part of what a computation has found; bump the epoch if that changes a subscription.

    What is unchanged is not written again, and what no member has any more is dropped.
    """
    saved, unsaved = group.saved, group.live.unsaved_resolutions
    names, needs_epoch = 0, False
    while unsaved and names < MOST_NAMES_AT_ONCE:
        expression, topics = unsaved.popleft()
        # Also what is not written: to compare it takes time as well.
        names += 1 + len(topics)
        before = saved.resolutions.get(expression)
        if expression not in saved.expression_counts or topics == before:
            continue
        needs_epoch |= changes_subscription(before, topics)
        value = ConsumerGroupRegularExpressionValue(
            topics=topics,
            # Kafka's version of the cluster's metadata, of which there is none here. With 0 a
            # Kafka that reads this log resolves the expression again.
            version=0,
            timestamp=turn.now.wall_ms,
        )
        turn.emit(records.regular_expression(group.group_id, expression, value))
    if needs_epoch:
        turn.emit(
            records.group_epoch(group.group_id, saved.epoch + 1, metadata_hash(group, turn.topics))
        )
    if unsaved:
        turn.deadlines.arm((RESOLUTIONS, group.group_id), turn.now.mono_ms + 1)
    else:
        group.live.resolved_ms = turn.now.mono_ms if saved.resolutions else None


def postpone_refresh(turn: Turn, computation: ResolveExpressions, why: str) -> None:
    """Keep what is saved after a computation that failed, and let a later heartbeat try again."""
    group = turn.ledger.consumer_group_or_none(computation.group_id)
    turn.note(
        "error", f"group {computation.group_id}: its expressions could not be resolved: {why}"
    )
    if group is not None:
        group.live.resolved_ms = turn.now.mono_ms


def _options() -> "re2.Options":
    """Return the options of every expression: RE2's own, with a bound and without captures."""
    options = re2.Options()
    options.max_mem = MAX_EXPRESSION_MEMORY_BYTES
    options.never_capture = True
    options.log_errors = False
    return options


def _reason(error: Exception) -> str:
    """Return RE2's sentence about an expression that it refuses."""
    reason = error.args[0]
    return reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
