"""The types of what a `BrokerSecurity` is given, checked before any of it is used."""

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Any

from apportion.node.settings import SettingRefused
from apportion.security.acls import (
    CLUSTER_NAME,
    AclBinding,
    AclOperation,
    AclPermission,
    PatternType,
    ResourceType,
)

EXAMPLE = (
    'AclBinding(ResourceType.TOPIC, "flights", PatternType.LITERAL, "User:alice", "*", '
    "AclOperation.READ, AclPermission.ALLOW), of apportion.broker"
)
VALUES: Mapping[str, tuple[type[IntEnum], tuple[str, ...]]] = {
    "resource_type": (ResourceType, ("UNKNOWN", "ANY")),
    "pattern_type": (PatternType, ("UNKNOWN", "ANY", "MATCH")),
    "operation": (AclOperation, ("UNKNOWN", "ANY")),
    "permission": (AclPermission, ("UNKNOWN", "ANY")),
}
"""Fields of an ACL that have one of a few values, with those that stand in filters alone."""


def check_shapes(wanted: Any) -> None:
    """Refuse values of wrong types, and ACLs that no broker takes.

    wanted: a `BrokerSecurity`. Errors: SettingRefused, which shows no user's password.
    """
    if not isinstance(wanted.users, Mapping):
        raise SettingRefused(
            "security has users that are no dict: write passwords by name, as "
            "users={'alice': 'PASSWORD'}."
        )
    for name, example in {"mechanisms": "SCRAM-SHA-512", "super_users": "User:alice"}.items():
        given = getattr(wanted, name)
        if not _is_list(given) or not all(isinstance(each, str) for each in given):
            raise SettingRefused(
                f"security has {name} that are no list of texts: write {name}=[{example!r}], not "
                f"{given!r}."
            )
    if not isinstance(wanted.needs_client_certificate, bool):
        raise SettingRefused(
            "needs_client_certificate must be True or False, not "
            f"{wanted.needs_client_certificate!r}."
        )
    # One ACL is a tuple itself.
    if not _is_list(wanted.acls) or isinstance(wanted.acls, AclBinding):
        raise SettingRefused(
            f"security has acls that are no list: write acls=[{EXAMPLE}]; not {wanted.acls!r}."
        )
    for acl in wanted.acls:
        _check_acl(acl)


def _is_list(value: object) -> bool:
    return isinstance(value, Sequence | set | frozenset) and not isinstance(value, str | bytes)


def _check_acl(acl: object) -> None:
    """Refuse what is no ACL, or one that no broker takes. Errors: SettingRefused."""
    if not isinstance(acl, AclBinding):
        raise SettingRefused(f"acls has {acl!r}, which is no AclBinding: write {EXAMPLE}.")
    for name, (kind, in_filters) in VALUES.items():
        value = getattr(acl, name)
        if not isinstance(value, kind) or value.name in in_filters:
            there_are = ", ".join(each.name for each in kind if each.name not in in_filters)
            raise SettingRefused(
                f"acls has an AclBinding whose {name} is {value!r}: write {kind.__name__}. and one "
                f"of {there_are}."
            )
    for name in ("name", "principal", "host"):
        if not isinstance(getattr(acl, name), str) or not getattr(acl, name):
            raise SettingRefused(
                f"acls has an AclBinding whose {name} is {getattr(acl, name)!r}: write a text"
                f"{'' if name == 'principal' else ', or * for all'}."
            )
    if not acl.principal.startswith("User:"):
        raise SettingRefused(
            f"acls has an AclBinding of {acl.principal!r}, which nobody is: write "
            f"User:{acl.principal}."
        )
    if acl.resource_type is ResourceType.CLUSTER and acl.name != CLUSTER_NAME:
        raise SettingRefused(
            f"acls has an AclBinding of the cluster {acl.name!r}: its name is {CLUSTER_NAME}."
        )
