"""Why records were taken again: each replay beside what its group and the coordinator said to each
other.

Kafka Streams counts at least once: a member that loses its place in the group gives its tasks up
without a commit, and whoever has them next begins at what was committed. That is the one
explanation of a replay here, and `unexplained` says what contradicts it. Everything in this file is
arithmetic on what a `Wire` and the instances have told; times are s of the wall clock.
"""

import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tests.compat.streams.wire import Call

LOST_PLACE = {"ILLEGAL_GENERATION", "UNKNOWN_MEMBER_ID"}
"""The answers at which a member gives everything up without a commit and joins anew."""
TICK_S = 0.002  # instances tell their times in whole milliseconds


@dataclass(frozen=True)
class Take:
    """A record that an instance began to process. client: what the client ids of that instance
    begin with.
    """

    at_s: float
    offset: int
    client: str


@dataclass(frozen=True)
class Replay:
    """Records of one partition, a (topic, partition), that were taken again: from `first` to the
    offset `last`.

    before: how the first of them had been taken before.
    """

    topic_partition: tuple[str, int]
    before: Take
    first: Take
    last: int


def replays_of(instances: Sequence[Any]) -> list[Replay]:
    """Return the replays of an application's instances, in order of time."""
    takes = defaultdict(list)
    for each in instances:
        group, name, _ = each.name.split(" ")
        for taken in each.events_of("took"):
            take = Take(taken["at"] / 1000, taken["offset"], f"{group}-{name}-")
            takes[taken["topic"], taken["partition"]].append(take)
    replays = [
        replay
        for partition, all_takes in takes.items()
        for replay in replays_in(partition, all_takes)
    ]
    return sorted(replays, key=lambda each: each.first.at_s)


def replays_in(partition: tuple[str, int], takes: list[Take]) -> Iterator[Replay]:
    """Yield the replays of one partition: each goes on for as long as offsets follow each other and
    had been taken before.
    """
    seen: dict[int, Take]
    replay: Any
    seen, replay = {}, None
    for take in sorted(takes, key=lambda each: each.at_s):
        before = seen.get(take.offset)
        if replay and before and take.offset == replay.last + 1:
            replay = Replay(partition, replay.before, replay.first, take.offset)
        else:
            if replay:
                yield replay
            replay = before and Replay(partition, before, take, take.offset)
        seen[take.offset] = take
    if replay:
        yield replay


def commits_of(calls: list[Call], partition: tuple[str, int]) -> list[Call]:
    """Return the commits of that partition that were stored, or may have been as nobody was told,
    in order of their answers.
    """
    mine = [
        each for each in calls if each.api == "OffsetCommit" and partition in each.asked["offsets"]
    ]
    return [
        each for each in mine if each.answer is None or each.answer["by_place"][partition] == "NONE"
    ]


def fetches_of(calls: list[Call], partition: tuple[str, int]) -> list[Call]:
    """Return the answers that say what is committed for that partition, in order."""
    return [
        each
        for each in calls
        if each.api == "OffsetFetch"
        and each.answer is not None
        and partition in each.answer["offsets"]
    ]


def lost_commits(calls: list[Call]) -> list[str]:
    """Return in words each answer of OffsetFetch that does not have the newest commit that had been
    acknowledged before.

    A commit that nobody was told of, or that was under way meanwhile, may be there or not.
    """
    lost = []
    fetch: Any
    for fetch in (each for each in calls if each.api == "OffsetFetch" and each.answer is not None):
        for partition, offset in fetch.answer["offsets"].items():
            before = [
                each for each in commits_of(calls, partition) if each.asked_s < fetch.answered_s
            ]
            sure = [
                each
                for each in before
                if each.answer is not None and each.answered_s < fetch.asked_s
            ]
            newest = sure[-1] if sure else None
            allowed = {
                each.asked["offsets"][partition]
                for each in before
                if newest is None or each.asked_s >= newest.asked_s
            }
            allowed |= set() if sure else {-1}
            if offset not in allowed:
                lost.append(
                    f"{partition} was fetched at {offset}, and may be at {sorted(allowed)} "
                    f"only: {fetch}"
                )
    return lost


def lost_generations(calls: list[Call], kills: list[float]) -> list[str]:
    """Return in words each answer by which a member lost its place though its generation had its
    assignment before a kill.

    kills: times. A generation is behind, and not lost, once members have joined a later one.
    """
    lost = []
    for each in (each for each in calls if each.codes & LOST_PLACE and "generation" in each.asked):
        killed_s = max((at_s for at_s in kills if at_s <= each.answered_s), default=0)
        mine: list[Any] = [
            other
            for other in calls
            if group_of(other) == group_of(each) and other.codes == {"NONE"}
        ]
        synced = {
            other.asked["generation"]
            for other in mine
            if other.api == "SyncGroup" and other.answered_s <= killed_s
        }
        newest = max(
            (
                o.answer["generation"]
                for o in mine
                if o.api == "JoinGroup" and o.answered_s <= each.answered_s
            ),
            default=0,
        )
        if each.asked["generation"] in synced and newest <= each.asked["generation"]:
            lost.append(f"generation {each.asked['generation']} was there and is not: {each}")
    return lost


def group_of(call: Call) -> str:
    """Return the group of a request of an application's member."""
    return call.client.partition("-")[0]


def losses_between(calls: list[Call], client: str, since_s: float, to_s: float) -> list[Call]:
    """Return the answers by which the instance's member was told between these times that it has
    lost its place.
    """
    return [
        each
        for each in calls
        if each.client.startswith(client)
        and each.codes & LOST_PLACE
        and since_s <= each.answered_s <= to_s
    ]


def unexplained(calls: list[Call], replay: Replay) -> list[str]:
    """Return in words what speaks against this: the replay begins at the last commit, because the
    member lost its place.
    """
    to_s = replay.first.at_s + TICK_S
    reasons = []
    fetched: list[Any] = [
        each
        for each in fetches_of(calls, replay.topic_partition)
        if each.answered_s <= to_s and each.asked_s >= replay.before.at_s
    ]
    if not fetched:
        reasons.append("nobody asked what is committed")
    elif replay.first.offset != max(fetched[-1].answer["offsets"][replay.topic_partition], 0):
        reasons.append(f"it does not begin at what was fetched: {fetched[-1]}")
    if not losses_between(calls, replay.before.client, replay.before.at_s, to_s):
        reasons.append(f"{replay.before.client} had not lost its place")
    return reasons


def describe_replay(calls: list[Call], marks: list[tuple[float, str]], replay: Replay) -> list[str]:
    """Return the lines that tell of one replay. marks: (time, what befell the broker)."""
    since_s, to_s = replay.before.at_s, replay.first.at_s + TICK_S
    commits, fetches = (
        commits_of(calls, replay.topic_partition),
        fetches_of(calls, replay.topic_partition),
    )
    lines = [
        (at_s, f"=== the broker {what}") for at_s, what in marks if since_s - 1 <= at_s <= to_s
    ]
    lines += [
        (each.asked_s, str(each))
        for each in [each for each in commits if each.answered_s < since_s][-1:]
    ]
    lines += [
        (each.asked_s, str(each))
        for each in calls
        if since_s <= each.answered_s
        and each.asked_s <= to_s
        and (
            each in commits
            or each in fetches
            or each.api in ("JoinGroup", "SyncGroup")
            or each.refusals
        )
        and each.client.startswith((replay.before.client, replay.first.client))
    ]
    lines += [(since_s, f"--- {replay.before.client} takes {replay.before.offset}")]
    lines += [
        (
            to_s,
            f"--- {replay.first.client} takes {replay.first.offset} again, and on to {replay.last}",
        )
    ]
    return [f"{clock(at_s)} {what}" for at_s, what in sorted(lines)]


def clock(at_s: float) -> str:
    """Return the time of day with its milliseconds."""
    return f"{time.strftime('%H:%M:%S', time.gmtime(at_s))}.{int(at_s * 1000) % 1000:03d}"
