"""Queries about ACLs: DescribeAcls, CreateAcls and DeleteAcls.

Any broker answers. A query may be sent again if its response is lost: what it creates or deletes is
then there, or gone.
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar, NamedTuple, TypeVar

from apportion.errors import Code, Refused
from apportion.member.cluster_queries.query import BrokerQuery
from apportion.security.acls import (
    AclBinding,
    AclFilter,
    AclOperation,
    AclPermission,
    PatternType,
    ResourceType,
)
from apportion.wire.messages.create_acls import (
    AclCreation,
    CreateAclsRequest,
    CreateAclsResponse,
)
from apportion.wire.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from apportion.wire.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)

N = TypeVar("N", bound=IntEnum)


@dataclass(frozen=True, slots=True)
class DescribeAclsQuery(BrokerQuery[tuple[AclBinding, ...]]):
    """Describe the ACLs that a filter matches."""

    api: ClassVar[str] = "DescribeAcls"

    wanted: AclFilter

    def request(self) -> DescribeAclsRequest:
        """Return the request for these ACLs."""
        resource_type, name, pattern_type, principal, host, operation, permission = self.wanted
        return DescribeAclsRequest(
            resource_type_filter=resource_type,
            resource_name_filter=name,
            pattern_type_filter=pattern_type,
            principal_filter=principal,
            host_filter=host,
            operation=operation,
            permission_type=permission,
        )

    def parse(self, response: DescribeAclsResponse) -> tuple[AclBinding, ...]:
        """Return the ACLs, in no particular order; raise Refused, with the broker's words."""
        self.refuse_error(response.error_code, response.error_message)
        return tuple(
            _binding(resource, each) for resource in response.resources for each in resource.acls
        )


@dataclass(frozen=True, slots=True)
class CreateAclsQuery(BrokerQuery[tuple[Refused | None, ...]]):
    """Create these ACLs, those that are there already too: each succeeds or fails alone."""

    api: ClassVar[str] = "CreateAcls"

    acls: tuple[AclBinding, ...]

    def request(self) -> CreateAclsRequest:
        """Return the request to create the ACLs."""
        return CreateAclsRequest(
            creations=tuple(
                AclCreation(
                    resource_type=acl.resource_type,
                    resource_name=acl.name,
                    resource_pattern_type=acl.pattern_type,
                    principal=acl.principal,
                    host=acl.host,
                    operation=acl.operation,
                    permission_type=acl.permission,
                )
                for acl in self.acls
            )
        )

    def parse(self, response: CreateAclsResponse) -> tuple[Refused | None, ...]:
        """Return of each ACL, in the order of the request, why it was not created; None if it was.

        One that the response leaves out has UNKNOWN_SERVER_ERROR.
        """
        results = response.results[: len(self.acls)]
        found = [_error_or_none(each.error_code, each.error_message) for each in results]
        left_out = len(self.acls) - len(found)
        return (*found, *(Refused(Code.UNKNOWN_SERVER_ERROR) for _ in range(left_out)))


class AclDeletion(NamedTuple):
    """The result of a deletion of ACLs.

    failures: why ACLs that match are still there, each reason once.
    """

    gone: tuple[AclBinding, ...]
    failures: tuple[Refused, ...] = ()


@dataclass(frozen=True, slots=True)
class DeleteAclsQuery(BrokerQuery[AclDeletion]):
    """Delete the ACLs that one of these filters matches."""

    api: ClassVar[str] = "DeleteAcls"

    filters: tuple[AclFilter, ...]

    def request(self) -> DeleteAclsRequest:
        """Return the request to delete these ACLs."""
        return DeleteAclsRequest(
            filters=tuple(
                DeleteAclsFilter(
                    resource_type_filter=each.resource_type,
                    resource_name_filter=each.name,
                    pattern_type_filter=each.pattern_type,
                    principal_filter=each.principal,
                    host_filter=each.host,
                    operation=each.operation,
                    permission_type=each.permission,
                )
                for each in self.filters
            )
        )

    def parse(self, response: DeleteAclsResponse) -> AclDeletion:
        """Return what was deleted; raise Refused if nothing was, and anything failed."""
        gone: dict[AclBinding, None] = {}
        failures: dict[tuple[Code, str], Refused] = {}
        for result in response.filter_results:
            answers: tuple[DeleteAclsFilterResult | DeleteAclsMatchingAcl, ...]
            answers = (result, *result.matching_acls)
            for each in answers:
                failure = _error_or_none(each.error_code, each.error_message)
                if failure is not None:
                    failures.setdefault((failure.code, failure.why), failure)
                elif isinstance(each, DeleteAclsMatchingAcl):
                    gone[_binding(each, each)] = None
        first = next(iter(failures.values()), None)
        if first is not None and not gone:
            raise first
        return AclDeletion(tuple(gone), tuple(failures.values()))


def _error_or_none(error_code: int, message: str | None) -> Refused | None:
    return None if error_code == Code.NONE else Refused(Code.of(error_code), message or "")


def _binding(
    resource: DescribeAclsResource | DeleteAclsMatchingAcl,
    entry: AclDescription | DeleteAclsMatchingAcl,
) -> AclBinding:
    """Return an ACL of a response. A value that only newer brokers know is UNKNOWN."""
    return AclBinding(
        _known(ResourceType, resource.resource_type),
        resource.resource_name,
        _known(PatternType, resource.pattern_type),
        entry.principal,
        entry.host,
        _known(AclOperation, entry.operation),
        _known(AclPermission, entry.permission_type),
    )


def _known(kind: type[N], number: int) -> N:
    return kind(number if number in list(kind) else 0)
