"""Foreign clients in processes of their own, told what to do and heard by lines of JSON
(clients/lines.py says which).
"""

import json
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from confluent_kafka.admin import AdminClient

DEADLINE_S = 30
SESSION_MS = 4000
STATIC_SESSION_MS = 20_000  # longer than any restart takes


class GroupUnderTest:
    """Everybody in one test. Nobody waits by sleeping: every line that somebody says is looked at
    as it comes.
    """

    def __init__(self, bootstrap: str, topic: str, group: str, directory: Path) -> None:
        self.bootstrap, self.topic, self.group, self.directory = bootstrap, topic, group, directory
        self.admin = AdminClient({"bootstrap.servers": bootstrap})
        self.arrived = threading.Condition()
        self.clients: list[Client] = []

    def client(
        self, command: list[str], name: str, strategy: str, instance: str | None = None
    ) -> "Client":
        """A client that has not joined yet."""
        options = {
            "bootstrap": self.bootstrap,
            "topic": self.topic,
            "group": self.group,
            "name": name,
            "strategy": strategy,
            "instance": instance,
            "session_ms": STATIC_SESSION_MS if instance else SESSION_MS,
            "heartbeat_ms": 300,
        }
        self.clients.append(Client(self, [*command, json.dumps(options)], name))
        return self.clients[-1]

    def until(self, condition: Callable[..., object], what: str) -> float:
        """`condition()` has come true; how many seconds that took. It is looked at when a client
        speaks, and now and then.
        """
        start = time.monotonic()
        with self.arrived:
            while (
                not (came := any(each.fell for each in self.clients) or condition())
                and time.monotonic() - start < DEADLINE_S
            ):
                self.arrived.wait(0.25)
        fallen = [each for each in self.clients if each.fell]
        assert not fallen, f"{fallen[0].name} ended by itself:\n{fallen[0].complaints()}"
        assert came, f"still not: {what}\n" + "\n".join(
            f"{each.name}: {each.messages[-5:]}" for each in self.clients
        )
        return time.monotonic() - start

    def end(self) -> None:
        """No client is left, and no admin that would look for a broker that a later test kills."""
        for each in self.clients:
            each.crash()
        del self.admin


class Client:
    """One driver's process."""

    def __init__(self, tested: GroupUnderTest, command: list[str], name: str) -> None:
        self.tested, self.name = tested, name
        self.messages: list[dict[str, Any]] = []
        self.fell = False
        self.dismissed = False
        self.errors = tested.directory / f"{name}-{len(tested.clients)}.stderr"
        with open(self.errors, "w") as errors:
            self.process: Any = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                bufsize=1,
            )
        self.listener = threading.Thread(target=self.listen, daemon=True)
        self.listener.start()

    def listen(self) -> None:
        for line in self.process.stdout:
            with self.tested.arrived:
                self.messages.append(json.loads(line))
                self.tested.arrived.notify_all()
        with self.tested.arrived:
            self.fell = not self.dismissed
            self.tested.arrived.notify_all()

    def complaints(self) -> str:
        return self.errors.read_text()[-6000:]

    def values_of(self, fact: str) -> list[Any]:
        """Everything it has said of one kind, in order."""
        return [each[fact] for each in self.messages if fact in each]

    def owned(self) -> list[int]:
        return next(iter(self.values_of("owned")[-1:]), [])

    def read(self) -> list[tuple[int, int]]:
        return [tuple(record) for record in self.values_of("read")]

    def order(self, do: str, **more: Any) -> None:
        with suppress(BrokenPipeError):  # whoever waits for the answer is told that it fell
            self.process.stdin.write(json.dumps({"do": do, **more}) + "\n")

    def answer(self, fact: str, do: str, **more: Any) -> Any:
        """What it says to an order."""
        before = len(self.values_of(fact))
        self.order(do, **more)
        self.tested.until(lambda: len(self.values_of(fact)) > before, f"{self.name} says {fact}")
        return self.values_of(fact)[-1]

    def produce(self, partitions: range | list[int]) -> set[tuple[int, int]]:
        """The places of new records, one in each of `partitions`."""
        return {
            tuple(record)
            for record in self.answer("produced", "produce", partitions=list(partitions))
        }

    def join(self) -> None:
        self.order("join")

    def commit(self) -> dict[int, int]:
        """{partition: next offset} as committed."""
        return dict(self.answer("committed", "commit"))

    def leave(self) -> None:
        self.dismissed = True
        assert self.answer("left", "leave") is True
        assert self.process.wait(20) == 0, self.complaints()
        self.close()

    def crash(self) -> None:
        """SIGKILL: nobody is told."""
        self.dismissed = True
        self.process.kill()
        self.process.wait()
        self.close()

    def close(self) -> None:
        self.listener.join()
        self.process.stdout.close()
        with suppress(BrokenPipeError):
            self.process.stdin.close()
