"""The pages of docs/reference: the API and the command line.

They are printed from the code while the site is built.
"""

import re
import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec
from types import FunctionType

MODULES = {  # public module -> what it is for
    "apportion": "the consumers",
    "apportion.broker": "a broker inside this process",
    "apportion.assignors": "assignors, and what one of your own needs",
    "apportion.adapters.aiokafka": "our assignors for aiokafka",
    "apportion.adapters.kafka_python": "our assignors for kafka-python",
    "apportion.errors": "the errors of the protocol",
    "apportion.spark": "what a Spark query needs beside the source",
    "apportion.spark.delta": "the exactly-once writer",
    "apportion.streams": "the topology of a Kafka Streams application",
    "apportion.testing": "what tests of a Kafka program need",
}
"""The public face, in the order of the navigation. A module that the package does not have is left
out.
"""

EXAMPLE = re.compile(r"(?:^(?:Example: )?apportion .*\n)+", re.MULTILINE)


def modules() -> list[str]:
    """Return the public modules that the package has."""
    return [name for name in MODULES if find_spec(name) is not None]


def pages() -> dict[str, str]:
    """Return every generated page: its path inside docs/ -> its Markdown."""
    found = {f"reference/api/{name}.md": api_page(name) for name in modules()}
    return found | {"reference/command-line.md": command_line_page()}


def api_page(module: str) -> str:
    """Return the page of one public module, which mkdocstrings fills from its docstrings."""
    head = f"# {module}\n\n`{module}` has {MODULES[module]}.\n"
    names = [
        name for name in getattr(import_module(module), "__all__", ()) if not name.startswith("__")
    ]
    if not names:
        return f"{head}\n::: {module}\n    options:\n      show_root_heading: false\n"
    return head + "".join(f"\n::: {_home(module, name)}\n" for name in names)


def _home(module: str, name: str) -> str:
    """Return the dotted name under which a public object is defined.

    A constant counts as the module's own.
    """
    value = getattr(import_module(module), name)
    if isinstance(value, type | FunctionType):
        return f"{value.__module__}.{value.__qualname__}"
    return f"{module}.{name}"


def command_line_page() -> str:
    """Return the page of the command `apportion`, as typer prints it, with examples as code."""
    command = [
        sys.executable,
        "-m",
        "typer",
        "apportion.cli.main",
        "utils",
        "docs",
        "--name",
        "apportion",
    ]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    text = text.replace("&#x27;", "'").replace("# `apportion`\n", "# The command line\n", 1)
    return EXAMPLE.sub(lambda found: f"```text\n{found[0].replace('Example: ', '')}```\n", text)
