"""The commands of `apportion users`: options and help."""

from pathlib import Path
from typing import Annotated, Any

import typer

from apportion.cli.arguments import (
    DEFAULT_BOOTSTRAP,
    DEFAULT_TIMEOUT_MS,
    NUMBER,
    AsJson,
    Bootstrap,
    CommandConfig,
    DryRun,
    Execute,
    Timeout,
    is_executed,
    one_of_any_case,
    user_names,
    whole_number_or_none,
)
from apportion.cli.asked import Asked, checked
from apportion.cli.command_group import Commands
from apportion.cli.failures import WrongArguments
from apportion.security.scram_credentials import MAX_ITERATIONS, MIN_ITERATIONS, ScramMechanism

COMMAND = "users"
users = typer.Typer(
    cls=Commands,
    help="Show and change who logs in by SCRAM, on our broker or Apache Kafka.",
    no_args_is_help=True,
)

NAMES = tuple(each.value for each in ScramMechanism)
NewUserArgument = Annotated[
    str, typer.Argument(metavar="USER", help="The user's name, without User:.")
]
UserArgument = Annotated[
    str,
    typer.Argument(metavar="USER", help="The user's name.", autocompletion=user_names),
]
UsersArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="USER", help="Names of users.", show_default=False, autocompletion=user_names
    ),
]


def _mechanisms(default: str) -> Any:
    return typer.Option(
        "--mechanism",
        metavar="MECHANISM",
        help=f"{' or '.join(NAMES)}; {default}. May be given more than once.",
        autocompletion=one_of_any_case(*NAMES),
    )


MechanismsOption = Annotated[list[str] | None, _mechanisms("SCRAM-SHA-512 if left out")]
OwnMechanismsOption = Annotated[list[str] | None, _mechanisms("all that the user has if left out")]
IterationsOption = Annotated[
    int | None,
    typer.Option(
        "--iterations",
        help=f"How often the password is hashed ({MIN_ITERATIONS} to {MAX_ITERATIONS}).",
        **NUMBER,
    ),
]
PasswordFileOption = Annotated[
    Path | None,
    typer.Option(
        "--password-file",
        metavar="FILE",
        help="A file with the password. Without one and without a variable it is asked for.",
    ),
]
PasswordVariableOption = Annotated[
    str | None,
    typer.Option(
        "--password-env", metavar="NAME", help="An environment variable with the password."
    ),
]


@users.command("list")
def list_command(
    names: UsersArgument = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    timeout_ms: Timeout = DEFAULT_TIMEOUT_MS,
    as_json: AsJson = False,
) -> None:
    """List SCRAM users, with their mechanisms and iterations.

    Users of PLAIN, tokens and certificates are not known to the cluster.
    """
    from apportion.cli.users.listing import list_users

    asked = Asked(COMMAND, bootstrap, timeout_ms, as_json, command_config)
    raise typer.Exit(list_users(asked, names or ()))


@users.command("add", no_args_is_help=True)
def add_command(
    name: NewUserArgument,
    mechanism: MechanismsOption = None,
    iterations: IterationsOption = None,
    password_file: PasswordFileOption = None,
    password_env: PasswordVariableOption = None,
    if_not_exists: Annotated[
        bool,
        typer.Option("--if-not-exists", help="A user who has a password keeps it: no error."),
    ] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    timeout_ms: Timeout = DEFAULT_TIMEOUT_MS,
    as_json: AsJson = False,
) -> None:
    """Add a SCRAM user, with a password that is asked for, or from a file.

    What he may do, say ACLs: apportion acls add.

    \b
    apportion users add alice
    apportion users add etl --password-file etl.password --mechanism SCRAM-SHA-256
    """
    from apportion.cli.users.changing import TypedPassword, add_user
    from apportion.cli.users.passwords import PasswordSource
    from apportion.cli.users.report import parse_mechanisms

    asked = Asked(COMMAND, bootstrap, timeout_ms, as_json, command_config)

    def run() -> int:
        typed = TypedPassword(
            name,
            parse_mechanisms(mechanism or ()),
            whole_number_or_none("--iterations", iterations),
            PasswordSource(password_file, password_env),
        )
        return add_user(asked, typed, if_not_exists)

    raise typer.Exit(checked(asked, run))


@users.command("alter", no_args_is_help=True)
def alter_command(
    name: UserArgument,
    mechanism: OwnMechanismsOption = None,
    iterations: IterationsOption = None,
    password_file: PasswordFileOption = None,
    password_env: PasswordVariableOption = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    timeout_ms: Timeout = DEFAULT_TIMEOUT_MS,
    as_json: AsJson = False,
) -> None:
    """Give a SCRAM user another password.

    New iterations need the password, too. Connections that are open stay.

    \b
    apportion users alter alice
    apportion users alter alice --iterations 8192 --password-env NEW_PASSWORD
    """
    from apportion.cli.users.changing import TypedPassword, alter_user
    from apportion.cli.users.passwords import PasswordSource
    from apportion.cli.users.report import parse_mechanisms

    asked = Asked(COMMAND, bootstrap, timeout_ms, as_json, command_config)

    def run() -> int:
        typed = TypedPassword(
            name,
            parse_mechanisms(mechanism or ()),
            whole_number_or_none("--iterations", iterations),
            PasswordSource(password_file, password_env),
        )
        return alter_user(asked, typed)

    raise typer.Exit(checked(asked, run))


@users.command("remove", no_args_is_help=True)
def remove_command(
    names: UsersArgument = None,
    mechanism: OwnMechanismsOption = None,
    if_exists: Annotated[
        bool, typer.Option("--if-exists", help="A user who does not exist is no error.")
    ] = False,
    own_login: Annotated[
        bool, typer.Option("--own-login", help="Also the password by which this command logs in.")
    ] = False,
    dry_run: DryRun = False,
    execute: Execute = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    timeout_ms: Timeout = DEFAULT_TIMEOUT_MS,
    as_json: AsJson = False,
) -> None:
    """Show SCRAM users, or their passwords for one mechanism, and remove them with --execute.

    Connections that are open stay, and so do ACLs: apportion acls remove --principal User:NAME.

    \b
    apportion users remove alice bob
    apportion users remove alice bob --execute
    """
    from apportion.cli.users.changing import remove_users
    from apportion.cli.users.report import parse_mechanisms

    asked = Asked(COMMAND, bootstrap, timeout_ms, as_json, command_config)

    def run() -> int:
        if not names:
            raise WrongArguments("name the users to remove")
        given = parse_mechanisms(mechanism or ())
        return remove_users(
            asked,
            names,
            given,
            if_exists=if_exists,
            own_login=own_login,
            execute=is_executed(dry_run, execute),
        )

    raise typer.Exit(checked(asked, run))
