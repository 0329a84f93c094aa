"""Commands and what they print: `transcripts/*.txt`; `pytest --rewrite` writes what they print.

A line is a step, and what it shows stands behind `>`; a line with "#" is a remark. Steps:

- `groups list --type classic`: that command of apportion, on the broker, if need be with variables
  in front. A line of stderr is shown with the exit code and Kafka's name of the error, in place of
  `apportion groups: `. A command that fails with nothing on stdout says the same with --json. JSON
  is shown without its line breaks, and a long line is broken.
- `broker [NAME=VALUE...]`: a new broker, in place of the last one
- `fake NAME [...]`: a broker of `fake_brokers.py`
- `topic t 2 [NAME=VALUE...]`: a topic with that many partitions
- `records t-0 3 [FIRST_MS]`: that many records, a minute apart
- `trim t-0 3`: the records below that offset are deleted
- `commit g t-0=5 [sink=/a]`: the group has that offset, of that sink
- `stored g`: offsets and metadata of the group
- `m joins g [t,u] [rack_id=north]` / `m leaves g`: a member of the consumer protocol
- `classic g [INSTANCE]`: a member of the classic protocol joins
- `classic-group NAME`: a stable group of `streams_groups.py`
- `rebalancing g`: a group whose member has joined and has no assignment yet
- `acl t User:bob 10.0.0.1`: an ACL by which that principal may read the topic from there
- `secured bob [MECHANISM...]`: a new broker on which bob may do nothing; TMP/bob.properties has his
  login, and TMP/alice.properties that of the super user
- `logins`: a new broker without users, whose second listener lets users of SCRAM in
- `login PASSWORD [MECHANISM...]`: whether alice is let in there
- `file PATH LINE...`: a file has these lines; TMP is a directory of the test
- `list TMP`: the names in a directory
- `tab groups describe ""`: what Tab offers

BROKER is where the broker listens, UUID an id that is new in every run.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.transcript import Transcript
from tests.scripted import check

TRANSCRIPTS = sorted((Path(__file__).parent / "transcripts").glob("*.txt"))
assert TRANSCRIPTS


@pytest.fixture
def transcript(tmp_path: Path) -> Iterator[Transcript]:
    made = Transcript(tmp_path)
    yield made
    made.close()


@pytest.mark.parametrize("script", TRANSCRIPTS, ids=lambda script: script.stem)
def test_commands_print_what_their_transcript_says(
    transcript: Transcript, script: Path, request: pytest.FixtureRequest
) -> None:
    check(script, transcript.play, request)
