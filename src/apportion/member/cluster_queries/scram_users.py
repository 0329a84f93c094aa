"""Queries about users of SCRAM: DescribeUserScramCredentials and AlterUserScramCredentials.

Any broker answers (KIP-554). A request has at most one credential of a user. A query may be sent
again if its response is lost: a password is then set once more, and a deletion is refused because
the credential is gone.
"""

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple

from apportion.errors import Code, Refused
from apportion.member.cluster_queries.query import BrokerQuery
from apportion.security.scram_credentials import ScramMechanism
from apportion.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from apportion.wire.messages.describe_user_scram_credentials import (
    SCRAM_SHA_256,
    SCRAM_SHA_512,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    UserName,
)

NUMBERS = MappingProxyType(
    {
        ScramMechanism.SCRAM_SHA_256: SCRAM_SHA_256,
        ScramMechanism.SCRAM_SHA_512: SCRAM_SHA_512,
    }
)
"""The numbers of the mechanisms in requests."""


class UserIterations(NamedTuple):
    """A credential as a broker tells it. user: the name, without `User:`."""

    user: str
    mechanism: ScramMechanism
    iterations: int


class SaltedPassword(NamedTuple):
    """A salted password, which is as good as the password to whoever reads it."""

    iterations: int
    salt: bytes
    salted: bytes

    def __repr__(self) -> str:
        return f"SaltedPassword(iterations={self.iterations})"


@dataclass(frozen=True, slots=True)
class DescribeUsersQuery(BrokerQuery[tuple[UserIterations, ...]]):
    """Describe the credentials of these users, or of all if there are none.

    Apache Kafka does not answer about all of them to a client that may not describe the cluster.
    """

    api: ClassVar[str] = "DescribeUserScramCredentials"

    users: tuple[str, ...] = ()

    def request(self) -> DescribeUserScramCredentialsRequest:
        """Return the request for these users."""
        names = tuple(UserName(name=user) for user in self.users)
        return DescribeUserScramCredentialsRequest(users=names or None)

    def parse(self, response: DescribeUserScramCredentialsResponse) -> tuple[UserIterations, ...]:
        """Return the credentials by user and mechanism; a user without one is left out.

        Raises Refused, with the broker's words, for any other error.
        """
        self.refuse_error(response.error_code, response.error_message)
        mechanisms = {number: mechanism for mechanism, number in NUMBERS.items()}
        found = []
        for result in response.results:
            if result.error_code == Code.RESOURCE_NOT_FOUND:
                continue
            self.refuse_error(result.error_code, result.error_message)
            found += [
                UserIterations(result.user, mechanisms[each.mechanism], each.iterations)
                for each in result.credential_infos
                if each.mechanism in mechanisms
            ]
        return tuple(sorted(found, key=lambda each: (each.user, each.mechanism.value)))


@dataclass(frozen=True, slots=True)
class SetPasswordQuery(BrokerQuery[None]):
    """Set the password of a user, who may be new, for one mechanism."""

    api: ClassVar[str] = "AlterUserScramCredentials"

    user: str
    mechanism: ScramMechanism
    password: SaltedPassword = field(repr=False)

    def request(self) -> AlterUserScramCredentialsRequest:
        """Return the request to set the password."""
        upsertion = ScramCredentialUpsertion(
            name=self.user,
            mechanism=NUMBERS[self.mechanism],
            iterations=self.password.iterations,
            salt=self.password.salt,
            salted_password=self.password.salted,
        )
        return AlterUserScramCredentialsRequest(upsertions=(upsertion,))

    def parse(self, response: AlterUserScramCredentialsResponse) -> None:
        """Raise Refused, with the broker's words, if the password was not set."""
        _raise_errors(self, response)


@dataclass(frozen=True, slots=True)
class DeletePasswordQuery(BrokerQuery[bool]):
    """Delete the credential that a user has for one mechanism."""

    api: ClassVar[str] = "AlterUserScramCredentials"

    user: str
    mechanism: ScramMechanism

    def request(self) -> AlterUserScramCredentialsRequest:
        """Return the request to delete the credential."""
        deletion = ScramCredentialDeletion(name=self.user, mechanism=NUMBERS[self.mechanism])
        return AlterUserScramCredentialsRequest(deletions=(deletion,))

    def parse(self, response: AlterUserScramCredentialsResponse) -> bool:
        """Return False if there was none; raise Refused, with the broker's words, otherwise."""
        try:
            _raise_errors(self, response)
        except Refused as refused:
            if refused.code is Code.RESOURCE_NOT_FOUND:
                return False
            raise
        return True


def _raise_errors(query: BrokerQuery[Any], response: AlterUserScramCredentialsResponse) -> None:
    for result in response.results:
        query.refuse_error(result.error_code, result.error_message)
