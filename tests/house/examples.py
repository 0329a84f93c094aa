"""The examples of docs/, and how a test runs them.

A comment before a block of `python`, or of a console with an `apportion` command, says what is
done with it:

    <!-- run -->             runs the program, or types the commands and compares what they print
    <!-- run with spark -->  the same in tests/spark
    <!-- background -->      types the command, and ends it when it has printed what is shown
    <!-- not run: WHY -->    checks the types of a program, and the words of a command

Lines below the first one of the comment are code that is put before the program, hidden from
readers: what the page leaves to them. A comment `<!-- then` behind a program holds code that is put
behind it. A program runs in an empty directory and must end by itself; the address of a broker with
one record in the topics `flights` and `lines` takes the place of localhost:9092. Tutorials, and
cli.md, have comments of their own (`tutorials.py`).
"""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import Producer

from apportion.broker import EmbeddedBroker

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
EXAMPLE = re.compile(
    r"(?:^<!-- (?P<mark>[^\n]+?)(?:\n(?P<before>[^<]*?))? ?-->\n+)?"
    r"^```(?P<kind>python|console)\n(?P<text>.*?)^```$"
    r"(?:\n+<!-- then\n(?P<after>[^<]*?)-->)?",
    re.DOTALL | re.MULTILINE,
)
FENCE = re.compile(r"^ *```(?P<kind>\w*)\n(?P<text>.*?)^ *```$", re.DOTALL | re.MULTILINE)
NOT_RUN = "not run: "
WALKED = ("cli.md",)  # pages whose examples follow from each other, as those of a tutorial
RUN_LIMIT_S = 300  # Spark alone takes two minutes to start where others use the cores


class Example(NamedTuple):
    """A block of a page, with the code around it that readers do not see."""

    page: str
    line: int
    kind: str
    mark: str
    before: str
    text: str
    after: str

    @property
    def name(self) -> str:
        """Where it stands, as a name that Python can import."""
        return re.sub(r"\W", "_", self.page.removesuffix(".md")) + f"_line_{self.line}"

    @property
    def program(self) -> str:
        """The whole program."""
        return f"{self.before}\n{self.text}\n{self.after}"


def has_command(text: str) -> bool:
    """Return whether a block has a command of ours."""
    return re.search(r"^(?:\$ )?apportion ", text, re.MULTILINE) is not None


def examples_of(page: str, text: str) -> list[Example]:
    """Return the examples of a page. AssertionError for one without a comment."""
    result = [
        Example(
            page,
            text.count("\n", 0, match.start("text")),
            match["kind"],
            match["mark"] or "",
            match["before"] or "",
            match["text"],
            match["after"] or "",
        )
        for match in EXAMPLE.finditer(text)
        if match["kind"] == "python" or has_command(match["text"])
    ]
    counted = [
        match
        for match in FENCE.finditer(text)
        if match["kind"] == "python" or has_command(match["text"])
    ]
    assert len(result) == len(counted), f"{page}: a command is in a block that is no console"
    unmarked = [example.line for example in result if not example.mark]
    assert unmarked == [], f"{page}: no comment before the block at line {unmarked[0]}"
    return result


def examples() -> list[Example]:
    """Return the examples of every page of docs/ but those that are walked, as tutorials are."""
    return [
        example
        for path in sorted(DOCS.rglob("*.md"))
        if path.parent.name != "tutorials" and path.name not in WALKED
        for example in examples_of(str(path.relative_to(DOCS)), path.read_text())
    ]


def commands_in(text: str) -> list[str]:
    """Return the commands of ours in a page or in a text: those of its blocks, and those in its
    sentences.
    """
    blocks = "".join(match["text"] for match in FENCE.finditer(text))
    prose = FENCE.sub("", text)
    typed = re.findall(r"^(?:\$ )?(apportion (?!\w+: ).*)$", blocks, re.MULTILINE)
    return typed + [" ".join(words.split()) for words in re.findall(r"`(apportion [^`]*)`", prose)]


def run(example: Example, directory: Path) -> None:
    """Run a program in an empty directory. AssertionError with its output where it fails."""
    with EmbeddedBroker(num_partitions=1) as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        for topic in ("flights", "lines"):
            producer.produce(topic, b"one record", key=b"key")
        producer.flush()
        done = subprocess.run(
            [sys.executable, "-c", example.program.replace("localhost:9092", broker.bootstrap)],
            cwd=directory,
            env={**os.environ, "PYSPARK_PYTHON": sys.executable},
            capture_output=True,
            text=True,
            timeout=RUN_LIMIT_S,
        )
    assert done.returncode == 0, done.stdout + done.stderr
