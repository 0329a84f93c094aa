"""The remedy of a topic that does not exist, for the sentences that say so.

The command works against any Kafka. A cluster with TLS or a login needs --command-config besides,
as every command does.
"""

import shlex


def create_command(topic: str, servers: str) -> str:
    """Return the command line that creates the topic.

    servers: the brokers as the user gave them; "" if nobody has, as in a simulation.
    """
    at = f" --bootstrap {shlex.quote(servers)}" if servers else ""
    return f"apportion topics create {shlex.quote(topic)}{at}"


def missing_topic_remedy(topic: str, servers: str) -> str:
    """Return what to do about a topic that does not exist: a sentence's end, behind a colon.

    servers: as for `create_command`.
    """
    return f"is its name right? `{create_command(topic, servers)}` creates it"
