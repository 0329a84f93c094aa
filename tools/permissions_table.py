"""The table of APIs and the permissions that they ask for, as the code has it."""

from apportion.node.authorization.table import CHECKS
from apportion.wire.table import api_of


def permissions_table() -> str:
    """Return a table of the permissions of each API, in the order of the code."""
    rows = [
        "| API | operation | resource | without it |",
        "|---|---|---|---|",
    ]
    for request, check in CHECKS.items():
        name = f"`{api_of(request).name}`"
        if not check.needs:
            rows.append(f"| {name} | none | | |")
        for need in check.needs:
            operation, resource = need.operation.name, need.resource.name
            rows.append(f"| {name} | `{operation}` | `{resource}` | {need.without} |")
            name = ""  # once for all its rows
    return "\n".join(rows) + "\n"
