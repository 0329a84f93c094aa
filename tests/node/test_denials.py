"""What the log of a broker says of requests that are denied, and that it says no more."""

from typing import TYPE_CHECKING

import pytest

from apportion.node.authorization.denials import Denials, RequestDenied
from apportion.security.acls import AclOperation, ResourceType
from apportion.wire.messages.list_groups import ListGroupsRequest
from apportion.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from apportion.wire.table import api_of
from tests.node.guarded import BOB, as_bob, guarded, let, may_not
from tests.node.guarded_requests import CASES, Case, begin
from tests.node.test_authorization import SERVED

if TYPE_CHECKING:
    from tests.node.conftest import Kit

HERE = [case for case in CASES if type(case.request) in SERVED]


@pytest.mark.parametrize("case", HERE, ids=lambda case: case.name)
def test_each_denial_of_a_need_is_logged_with_its_operation_and_resource(
    kit: "type[Kit]", case: Case
) -> None:
    driver = guarded(kit)
    begin(driver)
    enough = [acl for acl, _ in case.needs]
    for acl, _ in case.needs:
        if acl.operation == AclOperation.DESCRIBE_CONFIGS and case.name == "CreateTopics":
            continue  # The settings of what was created are left out, without a word.
        let(driver, *enough, may_not(acl))
        driver.denied.clear()
        as_bob(driver, case.request, case.version)
        [line] = driver.denied
        resource = acl.resource_type.name.lower().replace("_", " ")
        is_cluster = acl.resource_type == ResourceType.CLUSTER
        name = "the cluster" if is_cluster else f"the {resource} '{acl.name}'"
        api = api_of(type(case.request)).name
        assert line == RequestDenied(BOB, "here", api, f"{acl.operation.name} on {name}")


@pytest.mark.parametrize("case", HERE, ids=lambda case: case.name)
def test_nothing_is_logged_of_what_is_allowed(kit: "type[Kit]", case: Case) -> None:
    driver = guarded(kit, *(acl for acl, _ in case.needs))
    begin(driver)
    as_bob(driver, case.request, case.version)
    assert driver.denied == []


def test_a_list_that_leaves_topics_out_denies_nothing(kit: "type[Kit]") -> None:
    driver = guarded(kit)
    begin(driver)
    as_bob(driver, ListGroupsRequest())
    as_bob(driver, MetadataRequest(topics=None))
    assert driver.denied == []


def test_a_request_has_one_line_however_many_topics_it_names(kit: "type[Kit]") -> None:
    driver = guarded(kit)
    topics = tuple(MetadataRequestTopic(name=f"t{number}") for number in range(1_000))
    as_bob(driver, MetadataRequest(topics=topics))
    assert driver.denied == [
        RequestDenied(BOB, "here", "Metadata", "DESCRIBE on the topic 't0'", 999)
    ]


def test_names_of_others_are_escaped_and_cut() -> None:
    denials = Denials()
    denials.api = "JoinGroup"
    caller = (f"User:{'p' * 1_000}", "h")
    denials.add(caller, AclOperation.READ, ResourceType.GROUP, "a\x1b[2J\n" + "g" * 30_000)
    [line] = denials.take()
    assert (line.principal, line.what) == (
        f"User:{'p' * 43}...{'p' * 48}",
        f"READ on the group 'a\\x1b[2J\\n{'g' * 38}...{'g' * 48}'",
    )
    assert denials.take() == []
