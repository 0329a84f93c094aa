"""The errors of commands about ACLs and users where a cluster has none, or denies them."""

from apportion.cli.failures import Advised
from apportion.errors import Code, Refused

NO_AUTHORIZER = (
    "this cluster has no ACLs, and everybody may do everything: its brokers have no authorizer. A "
    "broker of ours has one with --set authorizer.class.name=StandardAuthorizer and super.users "
    "(docs/security.md)"
)


def advised(refused: Refused, what: str, operation: str) -> Refused:
    """Return the refusal with the next step, where there is one.

    what: the command's work, as in "show ACLs". operation: on the cluster, that it needs.
    """
    if refused.code is Code.SECURITY_DISABLED:
        return Advised(refused.code, NO_AUTHORIZER)
    if refused.code is Code.CLUSTER_AUTHORIZATION_FAILED:
        return Advised(
            refused.code,
            f"you may not {what}: that needs {operation} on the cluster. A super user gives it to "
            "you by `apportion acls add --allow-principal User:NAME --operation "
            f"{operation.title()} --cluster`; or give your own login as --command-config FILE",
        )
    return refused
