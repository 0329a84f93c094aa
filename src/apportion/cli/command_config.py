"""`--command-config FILE`: the TLS and SASL of a cluster, as Kafka's own tools take them.

The file is one of Java's properties: NAME=VALUE in a line, which goes on after a backslash at its
end. Options of other matters, such as client.id, are left alone.
"""

from pathlib import Path

from apportion.cli.failures import WrongArguments
from apportion.cli.properties import read_properties
from apportion.client.kafka_security import PREFIXES, kafka_security, nearest_option_or_none
from apportion.security.client_security import PLAINTEXT, ClientSecurity


def command_security(path: Path | None) -> ClientSecurity:
    """Return the security of a cluster from a file; plain connections if there is none.

    Raises WrongArguments, without any secret.
    """
    if path is None:
        return PLAINTEXT
    try:
        properties = read_properties(path)
    except ValueError as error:
        raise WrongArguments(f"--command-config {str(path)!r} cannot be read: {error}") from None
    for name in properties:
        near = nearest_option_or_none(name)
        # A misspelt name must not end in a plain connection.
        if near is not None and not name.startswith(PREFIXES):
            raise WrongArguments(
                f"--command-config {str(path)!r}: {name} is not known: did you mean {near}?"
            )
    try:
        return kafka_security(properties)
    except ValueError as error:
        raise WrongArguments(f"--command-config {str(path)!r}: {error}") from None
