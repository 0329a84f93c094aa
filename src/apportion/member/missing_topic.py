"""The command that creates a topic, for sentences that say that one does not exist.

It works against any Kafka. A cluster with TLS or a login needs --command-config besides, as every
command does.
"""

import shlex


def create_command(topic: str, servers: str) -> str:
    """Return the command line that creates the topic.

    servers: the brokers as the user gave them; "" if nobody has, as in a simulation.
    """
    at = f" --bootstrap {shlex.quote(servers)}" if servers else ""
    return f"apportion topics create {shlex.quote(topic)}{at}"
