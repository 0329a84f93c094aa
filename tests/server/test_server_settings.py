"""Settings that sockets obey: where clients are sent."""

from contextlib import ExitStack

from apportion.node.listeners import Address
from apportion.node.settings import BrokerSettings
from apportion.server.sockets import bind_listeners


def test_clients_are_told_the_address_that_is_advertised() -> None:
    with ExitStack() as undo:
        for advertised, told in (("elsewhere:1234", "elsewhere"), ("", "127.0.0.1")):
            settings = BrokerSettings.of(
                {"listeners": "127.0.0.1:0", "advertised.listeners": advertised}
            )
            [bound] = bind_listeners(settings.listening(), undo)
            port = 1234 if advertised else bound.socket.getsockname()[1]
            assert bound.advertised == Address(told, port)
