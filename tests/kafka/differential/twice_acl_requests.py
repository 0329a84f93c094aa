"""Requests about ACLs to brokers without an authorizer, which name something twice in a list."""

from typing import Any

from apportion.security.acls import AclFilter
from tests.node.acl_requests import acl, creating, deleting


def created_acls(twice: bytes, group: str) -> Any:
    """Two ACLs."""
    return creating(acl("a"), acl("b"))


def deleted_acls(twice: bytes, group: str) -> Any:
    """Two filters."""
    return deleting(AclFilter(name="a"), AclFilter(name="b"))
