"""`apportion users add`, `alter` and `remove`: passwords of SCRAM users."""

import os
import shlex
from collections.abc import Callable, Iterable
from typing import NamedTuple

from apportion.cli.asked import Asked, Report
from apportion.cli.cluster_reports import ReportedChange, print_change
from apportion.cli.command_config import command_security
from apportion.cli.denials import advised
from apportion.cli.failures import Advised, WrongArguments, print_warning
from apportion.cli.lines import print_dry_run, print_sentence, row_console
from apportion.cli.users.passwords import PasswordSource, asked_password
from apportion.cli.users.report import NoSuchUser, read_users, user_report
from apportion.client.cluster import Cluster
from apportion.errors import Code, Refused
from apportion.member.cluster_queries.retries import send_until_accepted
from apportion.member.cluster_queries.scram_users import (
    DeletePasswordQuery,
    SaltedPassword,
    SetPasswordQuery,
    UserIterations,
)
from apportion.node.authorizer_settings import super_users_of
from apportion.readable import listed, readable
from apportion.security.acls import AclOperation
from apportion.security.client_security import PasswordLogin
from apportion.security.scram_credentials import (
    MAX_ITERATIONS,
    MIN_ITERATIONS,
    ScramMechanism,
    salted_password,
)
from apportion.settings import Setting, bounds_fault_or_none

ITERATIONS = Setting(
    "How often a password is hashed.",
    MIN_ITERATIONS,
    at_least=MIN_ITERATIONS,
    at_most=MAX_ITERATIONS,
)
CHANGE = "change users"
NOTHING = "Nothing was changed: there is no such user, or no such password."
LAST_SUPER_USER = (
    "the last SCRAM password of super.users {}: unless a super user logs in otherwise, or an ACL "
    "allows somebody to ALTER the cluster, nobody can change users and ACLs any more. To mend "
    "that, start the broker with --add-scram, or Apache Kafka with another super.users"
)
DEFAULT_MECHANISM = ScramMechanism.SCRAM_SHA_512


class TypedPassword(NamedTuple):
    """A new password, as it was typed: for whom, and where it is.

    mechanisms: () for the default. iterations: None for the default.
    """

    user: str
    mechanisms: tuple[ScramMechanism, ...]
    iterations: int | None
    source: PasswordSource

    def check(self) -> None:
        """Raise WrongArguments for a name or iterations that cannot be."""
        check_user(self.user)
        if self.iterations is not None:
            fault = bounds_fault_or_none(ITERATIONS, self.iterations)
            if fault is not None:
                raise WrongArguments(f"--iterations must {fault}, not {self.iterations}")


def check_user(user: str) -> None:
    """Raise WrongArguments for a name that no user can have, and for a principal in its place."""
    if not user:
        raise WrongArguments("a user has a name")
    if user.startswith("User:"):
        raise WrongArguments(f"name the user without its type: {user.removeprefix('User:')}")


def add_user(asked: Asked, typed: TypedPassword, if_not_exists: bool) -> int:
    """Give a password to a user who has none for the mechanism; return the exit code."""
    typed.check()
    given = typed.source.given_or_none()
    wanted = typed.mechanisms or (DEFAULT_MECHANISM,)

    def change(cluster: Cluster) -> ReportedChange[list[Report]]:
        has = {each.mechanism: each for each in read_users(cluster, [typed.user])}
        there = [has[each] for each in wanted if each in has]
        if there and not if_not_exists:
            raise _exists(asked, there[0])
        iterations = typed.iterations or MIN_ITERATIONS
        new = [UserIterations(typed.user, each, iterations) for each in wanted if each not in has]
        done = _set(cluster, typed, given, new)
        kept = [user_report(each) | {"added": False} for each in there]
        return ReportedChange(
            [*kept, *(row | {"added": True} for row in done.report)], done.failures
        )

    def sentence(row: Report) -> str:
        if not row["added"]:
            return f"{row['user']} has a password for {row['mechanism']} already, which stays."
        return (
            f"{row['user']} has a password for {row['mechanism']} now, with {row['iterations']} "
            "iterations."
        )

    return print_change(asked, change, _shown(sentence))


def alter_user(asked: Asked, typed: TypedPassword) -> int:
    """Give a user another password for the mechanisms that he has; return the exit code."""
    typed.check()
    given = typed.source.given_or_none()

    def change(cluster: Cluster) -> ReportedChange[list[Report]]:
        has = {each.mechanism: each for each in read_users(cluster, [typed.user])}
        _require(asked, typed.user, has, typed.mechanisms)
        # All of them: by another mechanism the old password would still let him in.
        new = [
            has[each]._replace(iterations=typed.iterations or has[each].iterations)
            for each in typed.mechanisms or has
        ]
        done = _set(cluster, typed, given, new)
        return ReportedChange([row | {"altered": True} for row in done.report], done.failures)

    def sentence(row: Report) -> str:
        return (
            f"{row['user']} has another password for {row['mechanism']} now, with "
            f"{row['iterations']} iterations."
        )

    return print_change(asked, change, _shown(sentence))


def remove_users(
    asked: Asked,
    users: Iterable[str],
    mechanisms: tuple[ScramMechanism, ...],
    *,
    if_exists: bool,
    own_login: bool,
    execute: bool,
) -> int:
    """Show the passwords of users, or remove them, each by itself; return the exit code.

    own_login: also that by which this command logs in.
    """
    named = tuple(dict.fromkeys(users))
    if not own_login:
        _refuse_own_login(asked, named, mechanisms)

    def change(cluster: Cluster) -> ReportedChange[list[Report]]:
        found = read_users(cluster, named)
        # Before: a command without its own login any more may be unable to ask.
        last = _last_super_users(cluster, found, mechanisms)
        rows: list[Report] = []
        failures: list[Exception] = []
        for user in named:
            has = {each.mechanism: each for each in found if each.user == user}
            try:
                if not if_exists:
                    _require(asked, user, has, mechanisms)
                for mechanism in mechanisms or has:
                    if mechanism in has:
                        if execute:
                            query = DeletePasswordQuery(user, mechanism)
                            cluster.run(send_until_accepted(query))
                        rows.append(user_report(has[mechanism]) | {"removed": execute})
            except Refused as refused:
                failures.append(advised(refused, CHANGE, AclOperation.ALTER))
        # One whose removal was refused still lets a super user in.
        if last and all(user_report(each) | {"removed": execute} in rows for each in last):
            names = listed(sorted({each.user for each in last}))
            fate = LAST_SUPER_USER.format("is gone" if execute else "would be gone")
            print_warning(asked.command, f"{names}: {fate}", asked.as_json)
        return ReportedChange(rows, failures)

    def sentence(row: Report) -> str:
        has = "has" if row["removed"] else "would have"
        return f"{row['user']} {has} no password for {row['mechanism']} any more."

    def show(rows: list[Report]) -> None:
        _shown(sentence)(rows)
        if rows and not execute:
            print_dry_run("remove them")

    return print_change(asked, change, show)


def _last_super_users(
    cluster: Cluster, found: Iterable[UserIterations], mechanisms: tuple[ScramMechanism, ...]
) -> list[UserIterations]:
    """Return the passwords without which no super user has one of SCRAM any more.

    found: the passwords of the named users, of which those of the mechanisms are removed, or all.
    Empty where others have one, and where the broker does not tell who is a super user.
    """
    supers = super_users_of(cluster.broker_setting("super.users") or "")
    removed = {each for each in found if not mechanisms or each.mechanism in mechanisms}
    last = [each for each in removed if f"User:{each.user}" in supers]
    if not last:
        return []
    left = (each for each in read_users(cluster) if each not in removed)
    return [] if any(f"User:{each.user}" in supers for each in left) else last


def _refuse_own_login(
    asked: Asked, users: tuple[str, ...], mechanisms: tuple[ScramMechanism, ...]
) -> None:
    """Raise WrongArguments if the command's own login is among what it would remove."""
    login = command_security(asked.command_config).login
    if not isinstance(login, PasswordLogin) or login.name not in users:
        return
    removed = [each.value for each in mechanisms or ScramMechanism]
    if login.mechanism in removed:
        raise WrongArguments(
            f"{login.name} is the user by whom this command logs in ({login.mechanism}), and could "
            "not log in any more: --own-login removes the password all the same"
        )


def _shown(sentence: Callable[[Report], str]) -> Callable[[list[Report]], None]:
    """Return what prints a sentence for each row."""

    def show(rows: list[Report]) -> None:
        for row in rows:
            print_sentence(row_console(), readable(sentence(row)))
        if not rows:
            print_sentence(row_console(), NOTHING)

    return show


def _set(
    cluster: Cluster, typed: TypedPassword, given: str | None, new: list[UserIterations]
) -> ReportedChange[list[Report]]:
    """Set the password for each of the mechanisms; ask for it if it was not given."""
    rows: list[Report] = []
    failures: list[Exception] = []
    password = given if given is not None or not new else asked_password(typed.user)
    for each in new:
        salt = os.urandom(each.mechanism.hash_bytes)
        salted = salted_password(each.mechanism, password or "", salt, each.iterations)
        secret = SaltedPassword(each.iterations, salt, salted)
        try:
            cluster.run(send_until_accepted(SetPasswordQuery(each.user, each.mechanism, secret)))
        except Refused as refused:
            failures.append(advised(refused, CHANGE, AclOperation.ALTER))
        else:
            rows.append(user_report(each))
    return ReportedChange(rows, failures)


def _exists(asked: Asked, there: UserIterations) -> Advised:
    """Return the error for a user who has a password for the mechanism already."""
    return Advised(
        Code.DUPLICATE_RESOURCE,
        f"user {there.user!r} has a password for {there.mechanism.value} already: `apportion users "
        f"alter {shlex.quote(there.user)} {asked.at}` gives another one, and with "
        "--if-not-exists this is no error",
    )


def _require(
    asked: Asked,
    user: str,
    has: dict[ScramMechanism, UserIterations],
    mechanisms: tuple[ScramMechanism, ...],
) -> None:
    """Raise Advised if the user does not exist, or has no password for one of the mechanisms."""
    if not has:
        raise NoSuchUser(user, asked.at)
    named = shlex.quote(user)
    for mechanism in mechanisms:
        if mechanism not in has:
            raise Advised(
                Code.RESOURCE_NOT_FOUND,
                f"user {user!r} has no password for {mechanism.value}: `apportion users list "
                f"{named} {asked.at}` shows those that there are, and "
                f"`apportion users add {named} --mechanism {mechanism.value} {asked.at}` "
                "adds it",
            )
