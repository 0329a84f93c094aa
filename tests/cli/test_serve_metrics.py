"""`apportion serve --metrics`: where metrics are read while the command runs."""

import re
import subprocess
import sys
from http.client import HTTPConnection
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

SERVE = [sys.executable, "-m", "apportion.cli.main", "serve", "--listen", "127.0.0.1:0"]


def test_the_log_names_the_address_at_which_metrics_are_read(tmp_path: Path) -> None:
    command = [*SERVE, "--data-dir", str(tmp_path / "data"), "--metrics", "127.0.0.1:0"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as broker:
        try:
            assert broker.stdout is not None
            assert broker.stderr is not None
            assert broker.stdout.readline().startswith("listening on 127.0.0.1:")
            named = re.search(r"metrics are at http://(\S+)/metrics$", broker.stderr.readline())
            assert named is not None
            connection = HTTPConnection(named[1], timeout=30)
            connection.request("GET", "/metrics")
            text = connection.getresponse().read().decode()
            connection.close()
        finally:
            broker.terminate()
        rest = broker.communicate(timeout=60)
    assert (broker.returncode, rest) == (0, ("", ""))
    names = [family.name for family in text_string_to_metric_families(text)]
    assert "apportion_group_count" in names
