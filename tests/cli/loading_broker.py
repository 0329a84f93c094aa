"""A broker that loads its groups for a while: it refuses the first ListGroups requests."""

import socket
import threading
from typing import Any

from apportion.errors import Code
from apportion.wire.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
)
from apportion.wire.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from apportion.wire.messages.list_groups import ListedGroup, ListGroupsResponse
from apportion.wire.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
)
from apportion.wire.table import SERVED_APIS, decode_request, encode_response


class LoadingBroker(threading.Thread):
    """Serves one connection after the other until `close`.

    loading: how many requests it refuses before it lists the group `g`, which
    nobody may describe.
    """

    def __init__(self, loading: int) -> None:
        super().__init__()
        self.loading = loading
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._port = self._listener.getsockname()[1]
        self.bootstrap = f"127.0.0.1:{self._port}"

    def close(self) -> None:
        """Serve nobody any more."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self.join()
        self._listener.close()

    def run(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection, connection.makefile("rb") as frames:
                while size := frames.read(4):
                    request = decode_request(frames.read(int.from_bytes(size, "big")))
                    parts = encode_response(
                        request.api,
                        request.version,
                        request.correlation_id,
                        self._response(request.body),
                    )
                    connection.sendall(b"".join(parts))

    def _response(self, request: Any) -> Any:
        if isinstance(request, ApiVersionsRequest):
            return ApiVersionsResponse(
                api_keys=tuple(
                    ApiVersion(
                        api_key=key,
                        min_version=api.versions[0],
                        max_version=api.versions[-1],
                    )
                    for key, api in SERVED_APIS.items()
                )
            )
        if isinstance(request, MetadataRequest):
            broker = MetadataResponseBroker(node_id=1, host="127.0.0.1", port=self._port)
            return MetadataResponse(brokers=(broker,))
        if isinstance(request, FindCoordinatorRequest):
            denied = Coordinator(key="g", error_code=Code.GROUP_AUTHORIZATION_FAILED)
            return FindCoordinatorResponse(coordinators=(denied,))
        self.loading -= 1
        if self.loading >= 0:
            return ListGroupsResponse(error_code=Code.COORDINATOR_LOAD_IN_PROGRESS)
        group = ListedGroup(group_id="g", group_state="Empty", group_type="classic")
        return ListGroupsResponse(groups=(group,))
