"""Every API, asked by a caller with less than it needs, with just that, and with a denial."""

from typing import TYPE_CHECKING

import pytest

from apportion.node.authorization.table import CHECKS
from apportion.wire.messages.api_versions import ApiVersionsRequest
from apportion.wire.messages.describe_cluster import DescribeClusterRequest
from apportion.wire.messages.list_groups import ListGroupsRequest
from apportion.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from apportion.wire.messages.sasl_handshake import SaslHandshakeRequest
from apportion.wire.table import APIS, SERVED_APIS
from tests.node.guarded import as_bob, codes, guarded, let, may_not
from tests.node.guarded_requests import CASES, REFUSALS, Case, begin

if TYPE_CHECKING:
    from tests.node.conftest import Kit

SERVED = {api.request for api in SERVED_APIS.values()}
HERE = [case for case in CASES if type(case.request) in SERVED]
REFUSE_NOBODY = {
    *(ApiVersionsRequest, DescribeClusterRequest, ListGroupsRequest),
    *(SaslAuthenticateRequest, SaslHandshakeRequest),
}
"""APIs that answer everybody; test_authorized_responses.py has what they hide."""


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


@pytest.mark.parametrize("case", HERE, ids=lambda case: case.name)
def test_a_denial_of_each_need_wins(kit: "type[Kit]", case: Case) -> None:
    driver = guarded(kit)
    begin(driver)
    enough = [acl for acl, _ in case.needs]
    for acl, code in case.needs:
        let(driver, *enough, may_not(acl))
        assert codes(as_bob(driver, case.request, case.version)) - {0} == {code}


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
