"""AlterUserScramCredentials: set and delete the SCRAM credentials of users (KIP-554)."""

from apportion.wire.fields import array, int8, int16, int32, message, octets, string


@message()
class ScramCredentialDeletion:
    """One credential to delete."""

    name: str = string()
    mechanism: int = int8()


@message()
class ScramCredentialUpsertion:
    """One credential to create or replace.

    The client computes the salted password, so that the password itself never leaves it. The salted
    password is as good as the password to whoever reads it.
    """

    name: str = string()
    mechanism: int = int8()
    iterations: int = int32()
    salt: bytes = octets(secret=True)
    salted_password: bytes = octets(secret=True)


@message(key=51, versions=range(1), flexible=0, type="request")
class AlterUserScramCredentialsRequest:
    """Delete and set these credentials."""

    deletions: tuple[ScramCredentialDeletion, ...] = array(ScramCredentialDeletion)
    upsertions: tuple[ScramCredentialUpsertion, ...] = array(ScramCredentialUpsertion)


@message()
class AlterUserScramCredentialsResult:
    """The result of one user."""

    user: str = string()
    error_code: int = int16()
    error_message: str | None = string(nullable=0, default=None)


@message(key=51, versions=range(1), flexible=0, type="response")
class AlterUserScramCredentialsResponse:
    """The results by user."""

    throttle_time_ms: int = int32()
    results: tuple[AlterUserScramCredentialsResult, ...] = array(AlterUserScramCredentialsResult)
