"""Users of SCRAM as the commands of `apportion users` read and name them."""

from collections.abc import Iterable

from apportion.cli.asked import Report
from apportion.cli.denials import advised
from apportion.cli.failures import Advised, WrongArguments
from apportion.client.cluster import Cluster
from apportion.errors import Code, Refused
from apportion.member.cluster_queries.retries import send_until_accepted
from apportion.member.cluster_queries.scram_users import DescribeUsersQuery, UserIterations
from apportion.security.acls import AclOperation
from apportion.security.scram_credentials import ScramMechanism

MECHANISMS = {mechanism.value: mechanism for mechanism in ScramMechanism}


class NoSuchUser(Advised):
    """There is no user of that name; the text says how to list the users of that cluster."""

    def __init__(self, user: str, at: str) -> None:
        """Create the error for a user that does not exist; it names `apportion users list`."""
        kind, colon, name = user.partition(":")
        meaning = f"a user is named without {kind}:, as {name}; " if colon and name else ""
        super().__init__(
            Code.RESOURCE_NOT_FOUND,
            f"there is no SCRAM user {user!r}: {meaning}`apportion users list {at}` "
            f"shows what there is",
        )


def read_users(cluster: Cluster, names: Iterable[str] = ()) -> tuple[UserIterations, ...]:
    """Return the credentials of the named users, or of all, by user and mechanism."""
    try:
        return cluster.run(send_until_accepted(DescribeUsersQuery(tuple(dict.fromkeys(names)))))
    except Refused as refused:
        raise advised(refused, "show users", AclOperation.DESCRIBE) from None


def parse_mechanisms(typed: Iterable[str]) -> tuple[ScramMechanism, ...]:
    """Return the mechanisms that were typed, each once. Raises WrongArguments."""
    for text in typed:
        if text.upper() not in MECHANISMS:
            raise WrongArguments(f"--mechanism must be {' or '.join(MECHANISMS)}, not {text!r}")
    return tuple(dict.fromkeys(MECHANISMS[text.upper()] for text in typed))


def user_report(credential: UserIterations) -> Report:
    """Return the report on one credential of a user."""
    return {
        "user": credential.user,
        "mechanism": credential.mechanism.value,
        "iterations": credential.iterations,
    }
