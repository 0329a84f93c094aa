"""The player of scripts about a consumer group: one step, and what a real shard says to it.

Members have one word for a name. FACTS stand anywhere in a step, `name=value`: `as` (instance),
`rack`, `wants` (server assignor), `regex`, `patience` (rebalance timeout), `at` (epoch), `id`,
`group`, `version`, `client`, `host`, `without` (a field that a join lacks), `offers` (client-side
assignors, of which `lag:0-2@1%7!data` has the versions 0 to 2, and data of version 1 for reason 7).
Partitions are `foo-0 foo-1`, or `foo-0..1`. A request of any API is its name, a version if it is
not the newest, and its fields (tests/message_texts.py). The other steps:

- `given two; B prepares`: steps whose answers other scripts show
- `topic foo 3`, `topic foo 3 again`, `topic foo gone`: the topic has that many partitions from now
  on, or was deleted, and is made again with another id
- `group at 21: A foo-0, B`: the log holds a settled group with these members
- `alone`, `two`: A is alone at epoch 2 and has all of foo by its own assignor lag; then B joins,
  and is to compute
- `A joins foo bar [as INSTANCE] [owning foo-0] [matching b.*]`: a complete first heartbeat
- `A subscribes to bar matching b.*`: a heartbeat with another subscription
- `A beats [owning foo-0 foo-1]`: a heartbeat; `owning` alone: it uses nothing
- `A leaves` / `A goes for a while`: for good / as a static member
- `A prepares`, `A installs 3: A foo-0 data=x version=1, B`: the requests of the one that computes
- `A commits foo-0=5`, `A fetches foo-0`, `offsets`: in version 9; of nobody in particular: `none`
- `resolve`: what was begun beside the shard ends, and the shard gets the result; `begun`: how much
- `time 3000`: milliseconds pass
- `crash`: the shard is rebuilt from its log
- `show`: the group: its state, its target, its members; `state`: in a line
- `metrics`: of the group, in a line
- `saved A`, `target A`: what is saved of a member
- `log`: the kinds of the records since `mark`, of which `-` are tombstones
- `assignor all_to_first`: a custom assignor that answers so, from now on
- `set SETTING 1000`: a setting of groups (an underscore for each dot)
"""

import re
from dataclasses import replace
from typing import Any

from apportion.coord import records
from apportion.coord.consumer.reconcile import MemberState
from apportion.coord.consumer.targets import metadata_hash
from apportion.errors import Code
from apportion.machine import Caller
from apportion.topics import Topic, Topics
from apportion.wire.messages.delete_groups import DeleteGroupsRequest
from apportion.wire.records.groups import (
    ConsumerGroupCurrentMemberAssignmentValue,
    RecordTopicPartitions,
)
from tests.coord import client_side
from tests.coord.script_words import (
    FACT,
    answer_words,
    by_topic,
    computation_words,
    data_words,
    fields_of,
    heartbeat_words,
    metrics_words,
    named,
    offer,
    refusal,
)
from tests.coord.shard_driver import HERE, ShardDriver, member_metadata, parts, topic_id
from tests.coord.toy_assignor import ANSWERS, Toy
from tests.message_texts import request_and_version, words
from tests.messages import BY_NAME

ALONE = ["A joins foo offers=lag", "A prepares", "A installs 2: A foo-0..2", "A beats"]
SET_UPS = {"alone": ALONE, "two": [*ALONE, "B joins foo offers=lag"]}


class ScriptPlayer:
    """One script being played."""

    def __init__(self, known: Topics) -> None:
        self.driver = ShardDriver(known=known)
        self.topics = {topic.name: topic for topic in known}
        self.lives: dict[str, int] = {}
        self.epochs: dict[tuple[str, str], int] = {}  # by member and group
        self.instances: dict[str, str | None] = {}
        self.noted = self.marked = 0

    def play(self, line: str) -> list[str]:
        """What the shard says to one step, and what it notes in its log lines."""
        if line.startswith("given "):
            for each in line.removeprefix("given ").split("; "):
                refused = re.search(r": [A-Z]{4}", " ".join(self.play(each)))
                assert refused is None, f"{each} is refused, and no set-up"
            return []
        answers = self.ask(line) if line.split()[0] in BY_NAME else self.step(line)
        notes, self.noted = self.driver.notes[self.noted :], len(self.driver.notes)
        return answers + notes

    def ask(self, line: str) -> list[str]:
        """The whole answer to a request of any API."""
        ids = {topic.name: topic.id for topic in self.topics.values()}
        return [words(self.driver.send(*request_and_version(line, ids)), ids) or "done"]

    def step(self, line: str) -> list[str]:
        """What the shard says to one step."""
        head, _, tail = line.partition(":") if " installs " in line else (line, "", "")
        facts: dict[str, str] = {
            found[1]: found[2]
            for word in head.split()
            if (found := FACT.fullmatch(word)) is not None
        }
        match [word for word in head.split() if FACT.fullmatch(word) is None]:
            case ["topic", *about]:
                self.change_topic(*about)
            case ["group", "at", epoch, *_]:
                self.settle(int(epoch.rstrip(":")), line.split(":")[1])
            case ["alone" | "two" as name]:
                for each in SET_UPS[name]:
                    self.step(each)
            case ["time", elapsed_ms]:
                self.driver.advance(int(elapsed_ms))
            case ["crash"]:
                self.driver.crash()
            case ["mark"]:
                self.marked = len(self.driver.log)
            case ["assignor" | "set", name, *value]:
                self.change_settings(name, *value)
            case ["resolve"]:
                self.driver.end_computations()
            case ["metrics"]:
                return metrics_words(self.driver)
            case ["begun"]:
                return [", ".join(map(computation_words, self.driver.computations)) or "nothing"]
            case ["delete", group_id]:
                (result,) = self.driver.send(DeleteGroupsRequest(groups_names=(group_id,))).results
                return [Code(result.error_code).name]
            case ["show" | "state" | "saved" | "target" | "log" | "offsets" as what, *about]:
                return list(getattr(self, what)(*about))
            case [member, *action]:
                return self.act(member, action, facts, tail)
        return []

    def act(self, member: str, action: list[str], facts: dict[str, str], tail: str) -> list[str]:
        """What a member is answered."""
        match action:
            case ["prepares"]:
                return self.prepare(member, facts)
            case ["installs", epoch]:
                return self.install(member, int(epoch), tail, facts)
            case ["commits", *offsets]:
                return self.commit(member, offsets, facts)
            case ["fetches", *wanted]:
                return self.fetch(member, wanted, facts)
            case ["joins", *rest]:
                text, _, expression = " ".join(rest).partition("matching")
                text, _, owned = f" {text} ".partition(" owning ")
                names, _, instance = f" {text} ".partition(" as ")
                self.instances[member] = instance.strip() or facts.pop("as", None)
                joining: dict[str, Any] = {
                    "subscribed_topic_names": names.split(),
                    "rebalance_timeout_ms": 20_000,
                    "topic_partitions": parts(by_topic(owned.split())),
                }
                joining |= {"subscribed_topic_regex": expression.strip()} if expression else {}
                for field in facts.pop("without", "").split(","):
                    joining.pop(field, None)
                return self.beat(member, 0, facts, **joining)
            case ["subscribes", "to", *rest]:
                names, _, expression = " ".join(rest).partition("matching")
                wish = {
                    "subscribed_topic_names": names.split(),
                    "subscribed_topic_regex": expression.strip(),
                }
                return self.beat(member, None, facts, **wish)
            case ["beats"]:
                return self.beat(member, None, facts)
            case ["beats", "owning", *owned]:
                return self.beat(member, None, facts, topic_partitions=parts(by_topic(owned)))
            case ["leaves"]:
                return self.beat(member, -1, facts)
            case ["goes", "for", "a", "while"]:
                return self.beat(member, -2, facts)
        raise AssertionError(f"no such step: {member} {action}")

    def change_topic(self, name: str, partitions: str, *is_again: str) -> None:
        """The topic has that many partitions, is gone, or was made again."""
        self.lives[name] = self.lives.get(name, 0) + len(is_again)
        self.topics.pop(name, None)
        if partitions != "gone":
            some_id = topic_id(name, self.lives[name])
            self.topics[name] = Topic(name, some_id, int(partitions))
        self.driver.change_topics(self.topics.values())

    def change_settings(self, name: str, *value: str) -> None:
        """A setting has another value from now on, or there is an assignor of that name."""
        changed: dict[str, Any] = (
            {name: int(value[0]) if value[0].isdigit() else tuple(value[0].split(","))}
            if value
            else {
                "group_consumer_assignors": ("toy", "uniform"),
                "custom_assignors": {"toy": Toy(ANSWERS[name])},
            }
        )
        self.driver.settings = replace(self.driver.settings, **changed)
        self.driver.shard.settings = self.driver.settings

    def sender(self, member: str, epoch: int | None, facts: dict[str, str]) -> tuple[str, int]:
        """The member id and the epoch that a request names."""
        known = self.epochs.get((member, facts.get("group", "g")), 0) if epoch is None else epoch
        default = "" if member == "none" else member
        return facts.pop("id", default), int(facts.pop("at", known))

    def beat(
        self, member: str, epoch: int | None, facts: dict[str, str], **fields: Any
    ) -> list[str]:
        """One heartbeat, and the answer as a line."""
        group = facts.get("group", "g")
        member_id, at = self.sender(member, epoch, facts)
        caller = Caller(facts.pop("client", HERE.client_id), facts.pop("host", HERE.host))
        if "offers" in facts:
            offers = [each for each in facts.pop("offers").split(",") if each]
            fields["client_assignors"] = tuple(map(offer, offers))
        fields = {"instance_id": self.instances.get(member)} | fields | fields_of(facts)
        answer = self.driver.beat(member_id, at, caller=caller, **fields)
        if not answer.error_code:
            self.epochs[member, group] = answer.member_epoch
        is_usual = answer.member_id == member_id or answer.error_code
        about = "" if is_usual else f" for {len(answer.member_id or '')} characters"
        return [f"{member}: {heartbeat_words(answer)}{about}"]

    def prepare(self, member: str, facts: dict[str, str]) -> list[str]:
        """The group as the chosen member is told it: epoch, assignor, and a line for each part."""
        member_id, at = self.sender(member, None, facts)
        answer = client_side.prepare(self.driver, member_id, at, facts.get("group", "g"))
        if answer.error_code:
            return [f"{member}: {refusal(answer)}"]
        about = f"epoch {answer.group_epoch}, {answer.assignor_name} {answer.assignor_version}"
        told = [
            f"{each.member_id} at {each.member_epoch}"
            + "".join(
                f" {word} {value}"
                for word, value in (("as", each.instance_id), ("in", each.rack_id))
                if value
            )
            + f" has {named((part.topic_id, part.partitions) for part in each.topic_partitions)}"
            + data_words(each.assignor.reason, each.assignor.version, each.assignor.metadata)
            for each in answer.members
        ]
        return [f"{member}: {'; '.join([about, *told])}"]

    def install(self, member: str, epoch: int, targets: str, facts: dict[str, str]) -> list[str]:
        """The answer to ConsumerGroupInstallAssignment."""
        member_id, at = self.sender(member, None, facts)
        members = []
        for text in targets.split(",") if targets.strip() else ():
            name, *words = text.split()
            said = dict(word.split("=") for word in words if "=" in word)
            owned = by_topic([word for word in words if "=" not in word])
            data = said.get("data", "").encode()
            members.append(
                client_side.installed(name, owned, data, version=int(said.get("version", 0)))
            )
        about: dict[str, Any] = {"error": int(facts.pop("error"))} if "error" in facts else {}
        answer = client_side.install(
            self.driver, member_id, (at, epoch), members, **about, **fields_of(facts)
        )
        return [f"{member}: {refusal(answer) if answer.error_code else 'installed'}"]

    def commit(self, member: str, offsets: list[str], facts: dict[str, str]) -> list[str]:
        """The codes of a commit, by partition."""
        member_id, at = self.sender(member, -1 if member == "none" else None, facts)
        pairs = [word.partition("=") for word in offsets]
        wanted = {
            (topic, int(index)): int(offset)
            for name, _, offset in pairs
            for topic, _, index in [name.rpartition("-")]
        }
        codes = self.driver.commit(at, wanted, member_id, **fields_of(facts))
        told = [
            f"{name} {Code(code).name}" for (name, _, _), code in zip(pairs, codes, strict=True)
        ]
        return [f"{member}: {', '.join(told)}"]

    def fetch(self, member: str, wanted: list[str], facts: dict[str, str]) -> list[str]:
        """The offsets that a fetch gives, or its code."""
        member_id, at = self.sender(member, -1 if member == "none" else None, facts)
        about: dict[str, Any] = {"member_id": member_id or None, "epoch": at} | fields_of(facts)
        answer = self.driver.fetch(by_topic(wanted) if wanted else None, **about)
        offsets = [
            f"{topic.name or 'by id'}-{each.partition_index}={each.committed_offset}"
            + (f" {Code(each.error_code).name}" if each.error_code else "")
            for topic in answer.topics
            for each in topic.partitions
        ]
        code = Code(answer.error_code)
        return [f"{member}: {code.name if code else ' '.join(offsets) or 'nothing'}"]

    def settle(self, epoch: int, members: str) -> None:
        """The log begins with a group in which everybody has its target."""
        log = [records.group_epoch("g", epoch, 0)]
        for text in members.split(","):
            member, *held = text.split()
            self.epochs[member, "g"] = epoch
            has = parts(by_topic(held))
            given = tuple(
                RecordTopicPartitions(topic_id=part.topic_id, partitions=part.partitions)
                for part in has
            )
            value = ConsumerGroupCurrentMemberAssignmentValue(
                member_epoch=epoch, previous_member_epoch=epoch - 1, assigned_partitions=given
            )
            log += [
                records.member_metadata("g", member, member_metadata(rebalance_timeout_ms=20_000)),
                records.target_assignment(
                    "g", member, [(part.topic_id, part.partitions) for part in has]
                ),
                records.current_assignment("g", member, value),
            ]
        self.driver.log = [*log, records.assignment_epoch("g", epoch, 0)]
        self.driver.crash()
        hashed = metadata_hash(client_side.group_of(self.driver), self.driver.shard.topics)
        self.driver.log.append(records.group_epoch("g", epoch, hashed))
        self.driver.crash()

    def show(self) -> list[str]:
        """The group as its page in KIP-848 would show it."""
        group: Any = self.driver.shard.ledger.groups.get("g")
        if group is None:
            return ["no group"]
        saved, units = group.saved, group.saved.units
        members = [member for _, member in sorted(saved.members.items())]
        lines = [
            f"{group.state}, group epoch {saved.epoch}",
            f"target assignment epoch {saved.assignment_epoch}",
        ]
        lines += [
            f"  {member.member_id} shall have {named(units.as_topics(member.target.tolist()))}"
            for member in members
            if member.target is not None
        ]
        lines += [
            f"  {expression} matches {' '.join(found) or 'nothing'}"
            for expression, found in saved.resolutions.items()
        ]
        for member in members:
            state = "" if member.state is MemberState.STABLE else f" ({member.state.name.lower()})"
            has = named(units.as_topics(member.assigned.units.tolist()))
            owes = named(units.as_topics(member.pending_revocation.units.tolist()))
            debt = "" if owes == "nothing" else f", must give up {owes}"
            lines.append(f"{member.member_id} at {member.epoch}{state} has {has}{debt}")
        return lines

    def state(self, group_id: str = "g") -> list[str]:
        """The state of a group, its epochs, its members, and the assignor on which they agree."""
        group: Any = self.driver.shard.ledger.groups.get(group_id)
        if group is None:
            return ["no group"]
        saved, agreed = group.saved, group.saved.client_assignor
        by = "" if agreed is None else f", by {agreed[0]} {agreed[1]}"
        members = " ".join(saved.members) or "nobody"
        return [f"{group.state}, epoch {saved.epoch}/{saved.assignment_epoch}, {members}{by}"]

    def saved(self, member: str) -> list[str]:
        """What is saved of a member, but for what every member of a script has."""
        metadata = client_side.group_of(self.driver).saved.members[member].metadata
        usual = member_metadata(rebalance_timeout_ms=20_000)
        found = [
            f"{field.name} {value}"
            for field in metadata.__fields__
            if field.name != "client_assignors"
            and (value := getattr(metadata, field.name)) != getattr(usual, field.name)
        ]
        offers = [
            f"{each.name}:{each.minimum_version}-{each.maximum_version}"
            + data_words(each.reason, each.version, each.metadata)
            for each in metadata.client_assignors or ()
        ]
        return [", ".join([*found, *offers]) or "as usual"]

    def target(self, member: str) -> list[str]:
        """The target of a member, and what came with it."""
        saved = client_side.group_of(self.driver).saved
        target, answer = saved.members[member].target, saved.members[member].target_answer
        if target is None:
            return ["none"]
        told = "" if answer is None else answer_words(answer)
        return [named(saved.units.as_topics(target.tolist())) + told]

    def log(self) -> list[str]:
        """The kinds of the records since the mark."""
        kinds = [
            ("" if record.value is not None else "-")
            + type(record.key).__name__.removeprefix("ConsumerGroup").removesuffix("Key")
            + (f" {record.key.member_id}" if hasattr(record.key, "member_id") else "")
            for record in self.driver.log[self.marked :]
        ]
        return [", ".join(kinds) or "nothing"]

    def offsets(self, group_id: str = "g") -> list[str]:
        """What a group has committed."""
        found = [
            f"{topic}-{index}={value.offset}"
            for topic, some in self.driver.shard.ledger.offsets.get(group_id, {}).items()
            for index, value in some.items()
        ]
        return [" ".join(found) or "nothing"]
