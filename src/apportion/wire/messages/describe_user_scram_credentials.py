"""DescribeUserScramCredentials: which SCRAM credentials users have (KIP-554)."""

from apportion.wire.fields import array, int8, int16, int32, message, string

SCRAM_SHA_256, SCRAM_SHA_512 = 1, 2
"""The numbers of the mechanisms; 0 is an unknown one."""


@message()
class UserName:
    """One user."""

    name: str = string()


@message(key=50, versions=range(1), flexible=0, type="request")
class DescribeUserScramCredentialsRequest:
    """Describe these users; null or none stands for all."""

    users: tuple[UserName, ...] | None = array(UserName, nullable=0)


@message()
class CredentialInfo:
    """The mechanism of one credential, and its iterations; no keys."""

    mechanism: int = int8()
    iterations: int = int32()


@message()
class DescribeUserScramCredentialsResult:
    """The credentials of one user, or why they are not described."""

    user: str = string()
    error_code: int = int16()
    error_message: str | None = string(nullable=0, default=None)
    credential_infos: tuple[CredentialInfo, ...] = array(CredentialInfo)


@message(key=50, versions=range(1), flexible=0, type="response")
class DescribeUserScramCredentialsResponse:
    """The credentials by user."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=0, default=None)
    results: tuple[DescribeUserScramCredentialsResult, ...] = array(
        DescribeUserScramCredentialsResult
    )
