"""Who may do what: the rules by example, and the index beside a slow model of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.security.acls import (
    AclBinding,
    AclFilter,
    AclOperation,
    AclPermission,
    PatternType,
    ResourceType,
)
from apportion.security.authorizer import NOBODYS_NAME, OPERATIONS, Acls, Authorizer

ALLOW, DENY = AclPermission.ALLOW, AclPermission.DENY
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
READ, WRITE, ALL = AclOperation.READ, AclOperation.WRITE, AclOperation.ALL
DESCRIBE = AclOperation.DESCRIBE
TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
HERE = "127.0.0.1"


def acl(
    permission: AclPermission,
    operation: AclOperation,
    name: str = "flights",
    pattern_type: PatternType = LITERAL,
    **others: str,
) -> AclBinding:
    """An ACL about a topic, for alice from everywhere unless said otherwise."""
    given = {"principal": "User:alice", "host": "*"} | others
    return AclBinding(
        *(TOPIC, name, pattern_type, given["principal"], given["host"], operation, permission)
    )


def allows(
    acls: list[AclBinding],
    operation: AclOperation,
    name: str = "flights",
    principal: str = "User:alice",
) -> bool:
    return Authorizer(Acls(acls)).allows(principal, HERE, operation, TOPIC, name)


def test_nobody_but_a_super_user_may_do_anything_without_acls() -> None:
    authorizer = Authorizer(super_users=("User:root",))
    asked = (HERE, WRITE, TOPIC, "flights")
    assert [authorizer.allows(who, *asked) for who in ("User:root", "User:alice")] == [True, False]


def test_a_super_user_may_do_what_is_denied() -> None:
    denial = acl(DENY, ALL, "*", principal="User:*")
    authorizer = Authorizer(Acls([denial]), super_users=("User:root",))
    assert authorizer.allows("User:root", HERE, READ, TOPIC, "flights")
    assert authorizer.allows_any("User:root", HERE, WRITE, TOPIC)


def test_denial_wins_over_permission() -> None:
    assert allows([acl(ALLOW, READ)], READ)
    assert not allows([acl(ALLOW, READ), acl(DENY, READ, "*")], READ)
    assert not allows([acl(DENY, READ, "fli", PREFIXED), acl(ALLOW, READ)], READ)
    assert not allows([acl(ALLOW, ALL), acl(DENY, READ, principal="User:*")], READ)
    assert allows([acl(ALLOW, ALL), acl(DENY, WRITE)], READ)


def test_patterns_cover_a_name_its_beginnings_or_every_name() -> None:
    assert [
        [
            name
            for name in ("flights", "flights-2", "fli", "other", "*")
            if allows([each], READ, name)
        ]
        for each in (
            acl(ALLOW, READ),
            acl(ALLOW, READ, "flights", PREFIXED),
            acl(ALLOW, READ, "*"),
            acl(ALLOW, READ, "*", PREFIXED),
        )
    ] == [
        ["flights"],
        ["flights", "flights-2"],
        ["flights", "flights-2", "fli", "other", "*"],
        ["*"],
    ]


def test_the_bit_field_has_a_bit_for_each_operation_that_is_allowed() -> None:
    authorizer = Authorizer(Acls([acl(ALLOW, READ)]), super_users=("User:root",))
    asked = [
        authorizer.authorized_operations(who, HERE, resource, name)
        for who, resource, name in (
            ("User:alice", TOPIC, "flights"),
            ("User:alice", GROUP, "flights"),
            ("User:root", TOPIC, "flights"),
            ("User:root", GROUP, "g"),
            ("User:root", ResourceType.CLUSTER, "kafka-cluster"),
        )
    ]
    assert asked == [1 << READ | 1 << DESCRIBE, 0, 0b1101_1111_1000, 0b1101_0100_1000, 0x1FA0]


@pytest.mark.parametrize(
    ("acls", "may_write_somewhere"),
    [
        ([], False),
        ([acl(ALLOW, WRITE)], True),
        ([acl(ALLOW, ALL)], True),
        ([acl(ALLOW, READ)], False),
        ([acl(ALLOW, WRITE), acl(DENY, WRITE)], False),
        ([acl(ALLOW, WRITE), acl(DENY, ALL, "fl", PREFIXED)], False),
        ([acl(ALLOW, WRITE), acl(DENY, WRITE, "*")], False),
        ([acl(ALLOW, WRITE, "*"), acl(DENY, WRITE, NOBODYS_NAME)], True),
        ([acl(ALLOW, WRITE, "fl", PREFIXED), acl(DENY, WRITE)], True),
        ([acl(ALLOW, WRITE, "fl", PREFIXED), acl(DENY, WRITE, "fl", LITERAL)], True),
        ([acl(ALLOW, WRITE, "fl", PREFIXED), acl(DENY, WRITE, "f", PREFIXED)], False),
        ([acl(ALLOW, WRITE, host="10.0.0.1")], False),
        ([acl(ALLOW, WRITE, principal="User:*")], True),
        ([acl(ALLOW, WRITE), acl(DENY, WRITE, principal="User:bob")], True),
    ],
)
def test_some_resource_may_be_used_unless_all_that_is_allowed_is_denied(
    acls: list[AclBinding], may_write_somewhere: bool
) -> None:
    authorizer = Authorizer(Acls(acls))
    assert authorizer.allows_any("User:alice", HERE, WRITE, TOPIC) is may_write_somewhere


PRINCIPALS = ("User:alice", "User:bob", "User:*")
HOSTS = (HERE, "10.0.0.1", "*")
NAMES = ("a", "ab", "abc", "b", "*", NOBODYS_NAME)
ASKED = (READ, WRITE, DESCRIBE, AclOperation.ALTER_CONFIGS, AclOperation.DESCRIBE_CONFIGS)
acl_values = st.builds(
    AclBinding,
    st.sampled_from((TOPIC, GROUP)),
    st.sampled_from(NAMES),
    st.sampled_from((LITERAL, PREFIXED)),
    st.sampled_from(PRINCIPALS),
    st.sampled_from(HOSTS),
    st.sampled_from((*ASKED, ALL)),
    st.sampled_from((ALLOW, DENY)),
)
questions = st.tuples(
    st.sampled_from(PRINCIPALS[:2]),
    st.sampled_from(HOSTS[:2]),
    st.sampled_from(ASKED),
    st.sampled_from((TOPIC, GROUP)),
    st.sampled_from((*NAMES, "abcd", "c")),
)


def covers(each: AclBinding, name: str) -> bool:
    """The ACL is about resources of that name."""
    if each.pattern_type == PREFIXED:
        return name.startswith(each.name)
    return each.name in (name, "*")


def slowly_allows(
    acls: list[AclBinding],
    question: tuple[str, str, AclOperation, ResourceType, str],
    without_acls: bool,
) -> bool:
    """The rules, ACL by ACL."""
    principal, host, operation, resource, name = question
    about = [each for each in acls if each.resource_type == resource and covers(each, name)]
    mine = [
        each
        for each in about
        if each.principal in (principal, "User:*") and each.host in (host, "*")
    ]
    deciding = {operation, ALL}
    if any(each.permission == DENY and each.operation in deciding for each in mine):
        return False
    if operation == DESCRIBE:
        deciding |= {READ, WRITE, AclOperation.DELETE, AclOperation.ALTER}
    if operation == AclOperation.DESCRIBE_CONFIGS:
        deciding.add(AclOperation.ALTER_CONFIGS)
    if any(each.permission == ALLOW and each.operation in deciding for each in mine):
        return True
    return without_acls and not about


@given(st.lists(acl_values, max_size=8), questions, st.booleans())
def test_the_index_decides_as_one_acl_after_the_other_does(
    acls: list[AclBinding],
    question: tuple[str, str, AclOperation, ResourceType, str],
    without_acls: bool,
) -> None:
    authorizer = Authorizer(Acls(acls), allows_without_acls=without_acls)
    assert authorizer.allows(*question) == slowly_allows(acls, question, without_acls)


@given(st.lists(acl_values, max_size=8), questions)
def test_a_bit_stands_for_each_operation_that_is_allowed(
    acls: list[AclBinding], question: tuple[str, str, AclOperation, ResourceType, str]
) -> None:
    principal, host, _, resource, name = question
    authorizer = Authorizer(Acls(acls))
    assert authorizer.authorized_operations(principal, host, resource, name) == sum(
        1 << operation
        for operation in OPERATIONS[resource]
        if authorizer.allows(principal, host, operation, resource, name)
    )


def covers_topic(each: AclBinding, name: str) -> bool:
    """The ACL is about topics of that name."""
    return each.resource_type == TOPIC and covers(each, name)


def found(acls: Acls, name: str) -> list[AclBinding]:
    """The ACLs that a topic falls under, as the index finds them."""
    about = acls.about(TOPIC, name)
    return sorted(each for entries in about for some in entries.values() for each in some)


@given(st.lists(st.tuples(st.lists(acl_values, max_size=4), st.lists(acl_values, max_size=4))))
def test_a_changed_collection_has_what_came_and_not_what_went(
    changes: list[tuple[list[AclBinding], list[AclBinding]]],
) -> None:
    acls, model = Acls(), dict[AclBinding, None]()
    for added, removed in changes:
        before, listed = acls, sorted(acls)
        acls = acls.changed(added, removed)
        model = {each: None for each in model if each not in removed} | dict.fromkeys(added)
        assert sorted(acls) == sorted(model)
        assert acls == Acls(model)
        assert acls.matching(AclFilter(name="ab", pattern_type=PatternType.MATCH)) == sorted(
            each for each in model if covers(each, "ab")
        )
        assert all(each in acls for each in model)
        assert sorted(before) == listed
        for name in NAMES:
            assert found(acls, name) == [each for each in sorted(model) if covers_topic(each, name)]
