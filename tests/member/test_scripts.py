"""Stories told to a group member: `scripts/*.txt`, a line an event, what the member does behind
`>`; `pytest --rewrite` writes that.

A line with "#" is a remark. Before an event stands its time in ms, unless it is that of the line
above. T-0 is partition 0 of the topic with the id T, whose name is t. Each request has a number, by
which the events name it. Events, with fields of Kafka's messages where FIELDS stands:

- `new consumer SETTING=VALUE`, `new classic ASSIGNOR`: a member of one group protocol, in no group
- `joining`: at 0 ms it subscribes to t and finds its coordinator; its join, request 2, is in flight
- `joined T-0 T-1`, `joined T-0 epoch=7`: at 0 ms it joins and adopts these; nothing is in flight
- `here`, `back`: go on from here with one story after the other
- `subscribe t u`, `subscribe t matching u.*`: its owner subscribes, and it joins
- `adopt T-0`, `adopt T-0 in 1`: its owner uses exactly these (as offered in incarnation 1)
- `poll`, `leave`, `leave for good`, `tick`
- `found 1`: the coordinator, as request 1 asked
- `answer 2 FIELDS`, `answer 2 UNKNOWN_MEMBER_ID`, `answer 99 Heartbeat`: the coordinator's response
- `no answer 2 CODE why`: and none will come; the code may be left out
- `metadata 4 t:3`, `metadata 4 t:3:U`: the topic has 3 partitions (and is another one now)
- `rejoin why`: its owner wants a rebalance
- `beat FIELDS`: a tick, and the coordinator's response to the heartbeat that follows
- `new consumer counting`: a member with a client-side assignor, one of `script_assignors.py`
- `reply reason=9 after_ms=700`, `reply failure CODE why`, `reply raises why`,
  `reply refuses why`, `reply nothing`: what that replies to its assignments from now on; `fail`: it
  cannot encode its user data any more; `told`: what it was told
- `give m(t-0,t-1) s(;error=5)`, `give raises why`: its answer from now on; `run 8`: it runs, as the
  member wants; `ran 8 m(t-0)`, `ran 8 refused why`: it has run
- `query 9 word`: the cluster's answer to its query
- `new streams`, `state 0_0=running 0_1=95`, `warm-up failed 0_1`, `topology more`, `shut down`,
  `ends 6 1`: a Streams member (`script_streams.py`), and what it is told; `tasks`: what it has
- `show`, also as the end of another line: the member's state, and when it needs its next tick
"""

from pathlib import Path

import pytest

from tests.member.script_player import ScriptPlayer
from tests.scripted import check

SCRIPTS = sorted((Path(__file__).parent / "scripts").glob("*.txt"))
assert SCRIPTS


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_a_story_of_a_member_goes_as_it_is_told(
    script: Path, request: pytest.FixtureRequest
) -> None:
    check(script, ScriptPlayer().play, request)
