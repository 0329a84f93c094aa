"""The errors of commands about ACLs and users where a cluster has none, or denies them."""

from apportion.cli.failures import Advised, Denied
from apportion.errors import Code, Refused
from apportion.member.permissions import grant
from apportion.security.acls import AclOperation

NO_AUTHORIZER = (
    "this cluster has no ACLs, and everybody may do everything: its brokers have no authorizer. A "
    "broker of ours has one with --set authorizer.class.name=StandardAuthorizer and super.users "
    "(docs/security.md)"
)


def advised(refused: Refused, what: str, operation: AclOperation) -> Refused:
    """Return the refusal with the next step, where there is one.

    what: the command's work, as in "show ACLs". operation: on the cluster, that it needs.
    """
    if refused.code is Code.SECURITY_DISABLED:
        return Advised(refused.code, NO_AUTHORIZER)
    if refused.code is Code.CLUSTER_AUTHORIZATION_FAILED:
        return Denied(
            refused.code,
            f"you may not {what}: that needs {operation.name} on the cluster; "
            f"{grant('it', operation, '--cluster')}",
        )
    return refused
