"""The player of scripts about a node: one step, and what the node answers.

A request is its name, a version if it is not the newest, and its fields (tests/message_texts.py).
Steps:

- `Metadata topics=[name=t]`: the answer, after as many flushes as it takes; `FindCoordinator` comes
  before the first request of a group, as with every client, unless the line begins with `first`
- `ask Metadata topics=null`: the request waits, or is answered; a later answer stands at the step
  that it came with
- `create t 3 [cleanup.policy=compact]`: a topic; `produce t a b`: a batch of two records in t-0
- `given create t 1; produce t a`: steps whose answers other scripts show
- `flush`, `fail flush`, `sleep 1000`, `crash`: of the disk, the clock and the process
- `resolve`: what was begun beside the shards ends
- `set num.partitions=4`: another broker, with these settings
- `topics`: the names of all topics; `shards`: how many shards of groups there are
"""

from typing import Any

from tests.message_texts import request_and_version, words
from tests.node import kit
from tests.node.topic_requests import create


class ScriptPlayer:
    """One script being played."""

    def __init__(self) -> None:
        self.driver = kit.NodeDriver()
        self.waiting: dict[int, str] = {}  # ticket -> the name of its request

    def play(self, line: str) -> list[str]:
        """What the node answers to one step, and to the requests that wait since an earlier one."""
        if line.startswith("given "):
            for each in line.removeprefix("given ").split("; "):
                said = " ".join(self.play(each))
                assert "error_code" not in said, f"{each} is refused, and no set-up: {said}"
            return []
        answers = self.step(line)
        for ticket in [each for each in self.waiting if each in self.driver.answers]:
            name = self.waiting.pop(ticket)
            answers.append(f"{name}: {self.said(self.driver.answers[ticket])}")
        return answers

    def step(self, line: str) -> list[str]:
        """What the node answers to one step."""
        match line.split():
            case ["set", *settings]:
                given: dict[str, Any] = dict(each.split("=") for each in settings)
                self.driver = kit.NodeDriver(**given)
            case ["create", name, partitions, *config]:
                some: dict[str, Any] = dict(each.split("=") for each in config)
                code, why = create(self.driver, name, int(partitions), **some)
                assert code == 0, why
            case ["produce", name, *values]:
                batch = kit.batch(*(value.encode() for value in values))
                self.driver.call(kit.produce(name, batch), 12)
            case ["flush"]:
                self.driver.flush()
            case ["fail", "flush"]:
                self.driver.fail_flush()
            case ["sleep", elapsed_ms]:
                self.driver.sleep(int(elapsed_ms))
            case ["resolve"]:
                self.driver.end_computations()
            case ["crash"]:
                self.driver = self.driver.crash()
            case ["topics"]:
                return [" ".join(topic.name for topic in self.driver.node.topics) or "none"]
            case ["shards"]:
                return [str(len(list(self.driver.node.shards())))]
            case ["ask", name, *_]:
                ticket = self.driver.ask(*self.asked(line.removeprefix("ask ")))
                self.waiting[ticket] = name
            case ["first", *_]:
                ticket = self.driver.send(*self.asked(line.removeprefix("first ")))
                self.driver.flush()
                return [self.said(self.driver.answers[ticket])]
            case _:
                return [self.said(self.driver.call(*self.asked(line)))]
        return []

    def ids(self) -> dict[str, bytes]:
        """The ids of the topics."""
        return {topic.name: topic.id for topic in self.driver.node.topics}

    def asked(self, line: str) -> tuple[Any, int]:
        """The request of a line, and its version."""
        return request_and_version(line, self.ids())

    def said(self, answer: Any) -> str:
        """An answer as text."""
        return words(answer, self.ids()) or "done"
