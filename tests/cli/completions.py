"""What Tab offers on a command line."""

from typer.testing import CliRunner

from apportion.cli.main import app


def completed(*words: str, **variables: str) -> list[str]:
    """What Tab offers after these words, the last of which is begun; variables: of the shell."""
    environment = variables | {
        "_APPORTION_COMPLETE": "complete_bash",
        "COMP_WORDS": " ".join(words),
        "COMP_CWORD": str(len(words) - 1),
    }
    return CliRunner().invoke(app, [], prog_name="apportion", env=environment).output.split()
