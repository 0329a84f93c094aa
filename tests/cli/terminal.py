"""What a command shows on a terminal of a given width."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios

STYLE = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


def on_terminal(arguments: list[str], columns: int) -> list[str]:
    """The lines that `apportion ARGUMENTS` writes to a terminal of so many columns, without
    colours.
    """
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 200, columns, 0, 0))
    environment = {
        name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")
    }
    environment |= {"TERM": "xterm"}  # with a dumb one the width is 80 always
    command = [sys.executable, "-m", "apportion.cli.main", *arguments]
    with subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=subprocess.PIPE, env=environment
    ):
        os.close(theirs)
        written = b""
        try:
            while some := os.read(ours, 65_536):
                written += some
        except OSError:  # the terminal's other side is closed
            pass
    os.close(ours)
    return STYLE.sub("", written.decode()).replace("\r\n", "\n").splitlines()
