"""The name by which brokers and tools show the member of a query that was given none."""

import os
import re
import socket

from apportion.spark.options.stream import SourceOptions, client_id_of

HOST_CHARS = 63  # the longest label of a host's name


def member_client_id(options: SourceOptions) -> str:
    """Return kafka.client.id, or else a name that tells the applications of one host apart.

    The name has the host and the process id of the driver's Java process, which starts the process
    that calls this. It is new with each start: metrics and quotas by client id need the option.
    """
    default = client_id_of(None, options.group)
    if options.client_id != default:
        return options.client_id
    host = re.sub(r"[^\w.-]", "-", socket.gethostname().partition(".")[0])[:HOST_CHARS]
    return f"{default}-{host}-{os.getppid()}"
