"""A node that goes by ACLs: its users, what they may do, and what they are answered."""

from typing import Any

from apportion.machine import Caller
from apportion.security.acls import (
    CLUSTER_NAME,
    AclBinding,
    AclOperation,
    AclPermission,
    PatternType,
    ResourceType,
)
from tests.node import kit
from tests.node.acl_requests import EVERY_ACL, creating, deleted, deleting
from tests.node.acl_requests import codes as created
from tests.node.kit import NodeDriver

SUPER, BOB = "User:alice", "User:bob"
TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
TRANSACTIONAL_ID = ResourceType.TRANSACTIONAL_ID
NO_CODES = {0}
GUARDED = {"authorizer.class.name": "StandardAuthorizer", "super.users": SUPER}


def may(operation: AclOperation, resource: ResourceType, name: str = CLUSTER_NAME) -> AclBinding:
    """Bob may do this to the resource."""
    return AclBinding(resource, name, PatternType.LITERAL, BOB, "*", operation, AclPermission.ALLOW)


def may_not(acl: AclBinding) -> AclBinding:
    """Bob must not do what the ACL allows."""
    return acl._replace(permission=AclPermission.DENY)


def guarded(*acls: AclBinding, **settings: Any) -> NodeDriver:
    """A broker with these ACLs; the super user sends what is sent to it."""
    driver = kit.NodeDriver(**GUARDED | settings)
    driver.caller = Caller("test", "/here", SUPER)
    let(driver, *acls)
    return driver


def let(driver: NodeDriver, *acls: AclBinding) -> None:
    """These are all ACLs from now on."""
    before, driver.caller = driver.caller, Caller("test", "/here", SUPER)
    deleted(driver.call(deleting(EVERY_ACL)))
    assert set(created(driver.call(creating(*acls)))) <= NO_CODES
    driver.caller = before


def as_bob(driver: NodeDriver, request: Any, version: int | None = None) -> Any:
    """What bob is answered."""
    ticket = ask_as_bob(driver, request, version)
    while ticket not in driver.answers and driver.pending:
        driver.flush()
    return driver.answers[ticket]


def ask_as_bob(driver: NodeDriver, request: Any, version: int | None = None) -> int:
    """Bob sends a request; its ticket."""
    before, driver.caller = driver.caller, Caller("test", "/here", BOB)
    try:
        return driver.send(request, version)
    finally:
        driver.caller = before


def codes(response: Any) -> set[int]:
    """The error codes that stand anywhere in a response."""
    if isinstance(response, tuple):
        return set().union(*map(codes, response)) if response else set()
    if not hasattr(response, "__fields__"):
        return set()
    found = set[int]()
    for field in response.__fields__:
        value = getattr(response, field.name)
        found |= {int(value)} if field.name.endswith("error_code") else codes(value)
    return found
