"""DescribeUserScramCredentials and AlterUserScramCredentials: who logs in by SCRAM (KIP-554).

As in Kafka, one request alters one credential of a user, and a user has one result: the first thing
that is wrong with what the request wants of that user. Version: both 0. The response waits until
the credentials are on the disk; logins use them from then on.
"""

from typing import NamedTuple

from apportion.errors import Code, Refused
from apportion.machine import Arrived, Instant
from apportion.node.broker import Answer, BrokerContext, BrokerHandler
from apportion.readable import MAX_QUOTED, shortened
from apportion.security.scram_credentials import (
    ScramCredential,
    ScramMechanism,
    credential_of,
)
from apportion.store.metadata_log import ScramCredentials
from apportion.topics import grouped
from apportion.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from apportion.wire.messages.describe_user_scram_credentials import (
    SCRAM_SHA_256,
    SCRAM_SHA_512,
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)

MECHANISMS = {
    SCRAM_SHA_256: ScramMechanism.SCRAM_SHA_256,
    SCRAM_SHA_512: ScramMechanism.SCRAM_SHA_512,
}
MAX_CHANGES = 10_000
"""How many credentials one request may alter, and how many users it may name to describe them."""
MAX_SALT_BYTES = 4_096
"""A server sends the salt to its clients in one message of SCRAM."""


Wanted = tuple[ScramCredentialDeletion | ScramCredentialUpsertion, ...]
"""What a request wants of users."""


class CredentialChange(NamedTuple):
    """A credential that is to be set, or deleted: then it is None."""

    mechanism: ScramMechanism
    user: str
    credential: ScramCredential | None


def describe_users(broker: BrokerContext, arrived: Arrived, _now: Instant) -> Answer:
    """Handle DescribeUserScramCredentials: the mechanisms and iterations of users, or of all.

    Errors of a user: RESOURCE_NOT_FOUND, DUPLICATE_RESOURCE; POLICY_VIOLATION for more than
    `MAX_CHANGES`.
    """
    request: DescribeUserScramCredentialsRequest = arrived.request
    if request.users and len(request.users) > MAX_CHANGES:
        why = (
            f"a request names up to {MAX_CHANGES:,} users, and this one {len(request.users):,}: "
            "one that names none is about all of them"
        )
        return Answer(
            DescribeUserScramCredentialsResponse(
                error_code=Code.POLICY_VIOLATION, error_message=why
            )
        )
    credentials = broker.topic_service.metadata_log.scram_credentials
    if request.users:
        mentions = grouped((user.name, user) for user in request.users)
    else:
        mentions = dict.fromkeys(_all_users(credentials), ())
    results = (
        _described(credentials, user, len(mentioned)) for user, mentioned in mentions.items()
    )
    # As in Kafka, where all is well the messages are there, and empty.
    return Answer(DescribeUserScramCredentialsResponse(error_message="", results=tuple(results)))


def _all_users(credentials: ScramCredentials) -> list[str]:
    return sorted({user for by_user in credentials.values() for user in by_user})


def _described(
    credentials: ScramCredentials, user: str, mentions: int
) -> DescribeUserScramCredentialsResult:
    """Return what there is of one user, for DescribeUserScramCredentials."""
    infos = tuple(
        CredentialInfo(mechanism=number, iterations=credential.iterations)
        for number, mechanism in MECHANISMS.items()
        if (credential := credentials[mechanism].get(user)) is not None
    )
    if mentions <= 1 and infos:
        return DescribeUserScramCredentialsResult(
            user=user, error_message="", credential_infos=infos
        )
    named = shortened(user, MAX_QUOTED)
    code, why = (
        (Code.DUPLICATE_RESOURCE, f"the request names user {named} twice")
        if mentions > 1
        else (Code.RESOURCE_NOT_FOUND, f"user {named} has no SCRAM credential")
    )
    return DescribeUserScramCredentialsResult(user=user, error_code=code, error_message=why)


def alter_users(broker: BrokerContext, arrived: Arrived, _now: Instant) -> Answer:
    """Handle AlterUserScramCredentials: delete and set credentials, at most one of a user.

    Errors of a user: UNACCEPTABLE_CREDENTIAL, UNSUPPORTED_SASL_MECHANISM, RESOURCE_NOT_FOUND,
    DUPLICATE_RESOURCE; POLICY_VIOLATION for more than `MAX_CHANGES`.
    """
    request: AlterUserScramCredentialsRequest = arrived.request
    topic_service = broker.topic_service
    credentials = topic_service.metadata_log.scram_credentials
    wanted: Wanted = (*request.deletions, *request.upsertions)
    if len(wanted) > MAX_CHANGES:
        return Answer(_too_many(wanted))
    changes: list[CredentialChange] = []
    results: list[AlterUserScramCredentialsResult] = []
    for user, mentions in grouped((each.name, each) for each in wanted).items():
        try:
            changes.append(_checked(credentials, mentions))
        except Refused as refused:
            results.append(
                AlterUserScramCredentialsResult(
                    user=user, error_code=refused.code, error_message=refused.why
                )
            )
        else:
            results.append(AlterUserScramCredentialsResult(user=user))
    if changes:
        topic_service.record(lambda log: log.alter_scram_credentials(changes))
    return Answer(AlterUserScramCredentialsResponse(results=tuple(results)))


def _too_many(wanted: Wanted) -> AlterUserScramCredentialsResponse:
    """Return the response to a request that alters too much: it alters nothing."""
    why = f"a request alters up to {MAX_CHANGES:,} credentials, and this one {len(wanted):,}"
    users = dict.fromkeys(each.name for each in wanted)
    return AlterUserScramCredentialsResponse(
        results=tuple(
            AlterUserScramCredentialsResult(
                user=user,
                error_code=Code.POLICY_VIOLATION,
                # Once: the sentence is longer than a name.
                error_message=None if number else why,
            )
            for number, user in enumerate(users)
        )
    )


def _checked(credentials: ScramCredentials, mentions: Wanted) -> CredentialChange:
    """Return the one change that a request wants of a user; refuse two, or a wrong one.

    The order of the checks is Kafka's: the first mention of the user counts before the second.
    """
    wanted = mentions[0]
    if not wanted.name:
        raise Refused(Code.UNACCEPTABLE_CREDENTIAL, "a user has a name")
    mechanism = MECHANISMS.get(wanted.mechanism)
    if mechanism is None:
        raise Refused(
            Code.UNSUPPORTED_SASL_MECHANISM,
            f"there is no SCRAM mechanism {wanted.mechanism}; there are "
            + ", ".join(f"{number} ({known.value})" for number, known in MECHANISMS.items()),
        )
    if isinstance(wanted, ScramCredentialUpsertion):
        change = CredentialChange(mechanism, wanted.name, _credential(mechanism, wanted))
    elif wanted.name in credentials[mechanism]:
        change = CredentialChange(mechanism, wanted.name, None)
    else:
        raise Refused(
            Code.RESOURCE_NOT_FOUND,
            f"user {shortened(wanted.name, MAX_QUOTED)} has no credential of {mechanism.value}",
        )
    if len(mentions) > 1:
        raise Refused(
            Code.DUPLICATE_RESOURCE, "the request names this user twice: alter one after the other"
        )
    return change


def _credential(mechanism: ScramMechanism, wanted: ScramCredentialUpsertion) -> ScramCredential:
    """Return what is kept of a salted password. Errors: UNACCEPTABLE_CREDENTIAL."""
    if len(wanted.salt) > MAX_SALT_BYTES:
        raise Refused(Code.UNACCEPTABLE_CREDENTIAL, f"a salt has at most {MAX_SALT_BYTES:,} bytes")
    try:
        return credential_of(mechanism, wanted.salted_password, wanted.salt, wanted.iterations)
    except ValueError as fault:
        raise Refused(Code.UNACCEPTABLE_CREDENTIAL, str(fault)) from None


HANDLERS: dict[type, BrokerHandler] = {
    DescribeUserScramCredentialsRequest: describe_users,
    AlterUserScramCredentialsRequest: alter_users,
}
