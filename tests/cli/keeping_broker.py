"""A broker that keeps every password of SCRAM-SHA-512."""

from typing import Any

from apportion.errors import Code
from apportion.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from apportion.wire.messages.describe_configs import (
    BROKER,
    DescribeConfigsRequest,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from apportion.wire.messages.describe_user_scram_credentials import (
    SCRAM_SHA_256,
    SCRAM_SHA_512,
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from tests.cli.loading_broker import LoadingBroker


class KeepingBroker(LoadingBroker):
    """Has the super user admin alone, with both mechanisms."""

    def __init__(self) -> None:
        super().__init__(loading=0)

    def _response(self, request: Any) -> Any:
        if isinstance(request, DescribeUserScramCredentialsRequest):
            infos = tuple(
                CredentialInfo(mechanism=each, iterations=4_096)
                for each in (SCRAM_SHA_256, SCRAM_SHA_512)
            )
            admin = DescribeUserScramCredentialsResult(user="admin", credential_infos=infos)
            return DescribeUserScramCredentialsResponse(results=(admin,))
        if isinstance(request, DescribeConfigsRequest):
            supers = DescribeConfigsResourceResult(name="super.users", value="User:admin")
            result = DescribeConfigsResult(
                resource_type=BROKER,
                resource_name=request.resources[0].resource_name,
                configs=(supers,),
            )
            return DescribeConfigsResponse(results=(result,))
        if not isinstance(request, AlterUserScramCredentialsRequest):
            return super()._response(request)
        is_kept = request.deletions[0].mechanism == SCRAM_SHA_512
        return AlterUserScramCredentialsResponse(
            results=(
                AlterUserScramCredentialsResult(
                    user="admin",
                    error_code=Code.POLICY_VIOLATION if is_kept else Code.NONE,
                    error_message="it is kept by a policy" if is_kept else None,
                ),
            )
        )
