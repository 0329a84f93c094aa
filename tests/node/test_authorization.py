"""Every API, asked by a caller with less than it needs, with just that, and with a denial: what it
is answered, and what the broker logs of it.
"""

from typing import TYPE_CHECKING

import pytest

from apportion.node.authorization.denials import Denials, RequestDenied
from apportion.node.authorization.table import CHECKS
from apportion.security.acls import AclBinding, AclOperation, ResourceType
from apportion.wire.messages.api_versions import ApiVersionsRequest
from apportion.wire.messages.describe_cluster import DescribeClusterRequest
from apportion.wire.messages.list_groups import ListGroupsRequest
from apportion.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from apportion.wire.messages.sasl_handshake import SaslHandshakeRequest
from apportion.wire.table import APIS, SERVED_APIS, api_of
from tests.messages import request
from tests.node.guarded import BOB, as_bob, codes, guarded, let, may_not
from tests.node.guarded_requests import CASES, REFUSALS, Case, begin

if TYPE_CHECKING:
    from tests.node.conftest import Kit

SERVED = {api.request for api in SERVED_APIS.values()}
HERE = [case for case in CASES if type(case.request) in SERVED]
REFUSE_NOBODY = {
    *(ApiVersionsRequest, DescribeClusterRequest, ListGroupsRequest),
    *(SaslAuthenticateRequest, SaslHandshakeRequest),
}
"""APIs that answer everybody; authorized.txt has what they hide."""


def test_each_api_has_a_check() -> None:
    assert {api.request for api in APIS.values()} == CHECKS.keys()


def test_each_served_api_that_refuses_has_a_case() -> None:
    assert {type(case.request) for case in HERE} == SERVED - REFUSE_NOBODY


@pytest.mark.parametrize("case", HERE, ids=lambda case: case.name)
def test_without_any_acl_a_request_is_refused(kit: "type[Kit]", case: Case) -> None:
    driver = guarded(kit)
    begin(driver)
    _, code = case.needs[0]
    assert codes(as_bob(driver, case.request, case.version)) - {0} == {code}


@pytest.mark.parametrize("case", HERE, ids=lambda case: case.name)
def test_with_what_it_needs_nothing_of_a_request_is_refused(kit: "type[Kit]", case: Case) -> None:
    driver = guarded(kit, *(acl for acl, _ in case.needs))
    begin(driver)
    assert codes(as_bob(driver, case.request, case.version)) & REFUSALS == set()
    assert driver.denied == []


@pytest.mark.parametrize("case", HERE, ids=lambda case: case.name)
def test_a_denial_of_each_need_wins_and_is_logged(kit: "type[Kit]", case: Case) -> None:
    driver = guarded(kit)
    begin(driver)
    enough = [acl for acl, _ in case.needs]
    for acl, code in case.needs:
        let(driver, *enough, may_not(acl))
        driver.denied.clear()
        assert codes(as_bob(driver, case.request, case.version)) - {0} == {code}
        if acl.operation == AclOperation.DESCRIBE_CONFIGS and case.name == "CreateTopics":
            continue  # The settings of what was created are left out, without a word.
        api = api_of(type(case.request)).name
        assert driver.denied == [RequestDenied(BOB, "here", api, shown(acl))]


def shown(acl: AclBinding) -> str:
    """The operation and the resource as a log line names them."""
    resource = acl.resource_type.name.lower().replace("_", " ")
    is_cluster = acl.resource_type == ResourceType.CLUSTER
    name = "the cluster" if is_cluster else f"the {resource} '{acl.name}'"
    return f"{acl.operation.name} on {name}"


@pytest.mark.parametrize("case", HERE, ids=lambda case: case.name)
def test_a_super_user_needs_no_acl(kit: "type[Kit]", case: Case) -> None:
    driver = guarded(kit, *(may_not(acl) for acl, _ in case.needs))
    begin(driver)
    assert codes(driver.call(case.request, case.version)) & REFUSALS == set()


@pytest.mark.parametrize("case", HERE, ids=lambda case: case.name)
def test_without_an_authorizer_everybody_may_do_all(kit: "type[Kit]", case: Case) -> None:
    driver = kit.NodeDriver()
    begin(driver)
    assert codes(as_bob(driver, case.request, case.version)) & REFUSALS == set()


def test_a_list_that_leaves_topics_out_denies_nothing(kit: "type[Kit]") -> None:
    driver = guarded(kit)
    begin(driver)
    as_bob(driver, request("ListGroups"))
    as_bob(driver, request("Metadata", topics=None))
    assert driver.denied == []


def test_a_request_has_one_line_however_many_topics_it_names(kit: "type[Kit]") -> None:
    driver = guarded(kit)
    topics = [{"name": f"t{number}"} for number in range(1_000)]
    as_bob(driver, request("Metadata", topics=topics))
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
