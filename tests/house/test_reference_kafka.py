"""The Apache Kafka that everything here is compared with stands in tests/kafka/pom.xml: the other
poms, the newest release of Kafka Streams and the pages name the same.
"""

import re
from pathlib import Path

import pytest

from apportion.streams.metadata.releases import NEWEST_RELEASE, known_release

ROOT = Path(__file__).resolve().parents[2]
EARLIER = "4.3.1"
OTHERS = {
    "tests/kafka/pom-earlier.xml": EARLIER,
    "tests/compat/streams/pom-4.3.xml": EARLIER,
    "tests/compat/streams/pom-3.9.xml": "3.9.1",  # the last with eager rebalances
    "tests/compat/streams/pom-2.8.xml": "2.8.2",  # the last with metadata version 9
}
"""The poms with another release than the reference, on purpose."""
SENTENCES = [
    ("README.md", "and Apache Kafka {}, and by a smaller set"),
    ("README.md", f"and with Kafka {EARLIER}."),
    ("docs/clients.md", "applications of release {} count words"),
    ("docs/clients.md", f"and {EARLIER}, which speaks version 11 as well, by one bounce to {{}}."),
    ("docs/differences.md", "exactly the versions of Apache Kafka {},"),
    ("docs/differences.md", f"The reference before this one, {EARLIER},"),
    ("docs/performance.md", "measures apportion beside Apache Kafka {},"),
    ("docs/from-format-kafka.md", "on Apache Kafka {} and"),
]
"""Each page with its sentence about the reference, and about the one before."""


def kafka_of(pom: Path) -> str | None:
    """The release of Apache Kafka that the pom names; None: it names none."""
    text = pom.read_text()
    if "<groupId>org.apache.kafka</groupId>" not in text:
        return None
    match = re.search("<kafka.version>(.+)</kafka.version>", text)
    assert match is not None, f"{pom} has no property kafka.version"
    return match[1]


def reference() -> str:
    version = kafka_of(ROOT / "tests" / "kafka" / "pom.xml")
    assert version is not None
    return version


def test_every_pom_has_the_reference_but_those_with_a_reason() -> None:
    poms = [*ROOT.glob("tests/**/pom*.xml"), *ROOT.glob("bench/**/pom*.xml")]
    versions = {pom.relative_to(ROOT).as_posix(): kafka_of(pom) for pom in sorted(poms)}
    assert {
        pom: version for pom, version in versions.items() if version not in (None, reference())
    } == OTHERS


def test_the_newest_kafka_streams_is_that_of_the_reference() -> None:
    assert known_release(reference()).name == NEWEST_RELEASE


@pytest.mark.parametrize(("page", "sentence"), SENTENCES)
def test_the_pages_name_the_reference(page: str, sentence: str) -> None:
    text = " ".join((ROOT / page).read_text().split())
    assert sentence.format(reference()) in text
