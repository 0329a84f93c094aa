"""What callers are told who may do a part of what they ask for: `authorized.txt`.

Steps beside those of `script_player.py`:

- `guarded READ TOPIC mine; not READ GROUP g`: a broker that goes by ACLs, of which bob has these
- `may READ TOPIC mine`: these are all ACLs from now on
- `bob Metadata topics=null`, `bob ask Fetch ...`: bob asks; everybody else is a super user
"""

from pathlib import Path
from typing import Any

import pytest

from apportion.machine import CloseConnection
from apportion.security.acls import AclBinding, AclOperation, ResourceType
from tests.messages import request
from tests.node.guarded import as_bob, ask_as_bob, guarded, let, may, may_not
from tests.node.script_player import ScriptPlayer
from tests.scripted import cases_of, check

SCRIPT = Path(__file__).with_name("authorized.txt")


def acl_of(text: str) -> AclBinding:
    """An ACL of bob, such as `READ TOPIC t`, `DESCRIBE CLUSTER` or `not READ GROUP g`."""
    operation, resource, *name = text.removeprefix("not ").split()
    allowed = may(AclOperation[operation], ResourceType[resource], *name)
    return may_not(allowed) if text.startswith("not ") else allowed


class GuardedPlayer(ScriptPlayer):
    """One script, with bob and his ACLs."""

    def step(self, line: str) -> list[str]:
        step, _, rest = line.partition(" ")
        if step in ("guarded", "may"):
            if step == "guarded":
                self.driver = guarded()
                # By which groups have a coordinator.
                self.driver.call(request("OffsetFetch", groups=()))
            let(self.driver, *(acl_of(each.strip()) for each in rest.split(";") if each))
        elif step == "bob" and rest.startswith("ask "):
            asked = rest.removeprefix("ask ")
            self.waiting[ask_as_bob(self.driver, *self.asked(asked))] = asked.split()[0]
        elif step == "bob":
            return [self.said(as_bob(self.driver, *self.asked(rest)))]
        else:
            return super().step(line)
        return []

    def said(self, answer: Any) -> str:
        if isinstance(answer, CloseConnection):
            return f"closed: {answer.why}"
        return "no answer" if answer is None else super().said(answer)


@pytest.mark.parametrize("title", cases_of(SCRIPT))
def test_a_case_goes_as_it_is_told(title: str, request: pytest.FixtureRequest) -> None:
    check(SCRIPT, GuardedPlayer().play, request, title)
