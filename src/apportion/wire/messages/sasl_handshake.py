"""SaslHandshake: choose the SASL mechanism of a connection (KIP-43)."""

from apportion.wire.fields import array, int16, message, string


@message(key=17, versions=range(2), type="request")
class SaslHandshakeRequest:
    """Choose this mechanism.

    After version 0 the bytes of the mechanism follow as frames of their own, without headers; after
    version 1 in SaslAuthenticate requests (KIP-152).
    """

    mechanism: str = string()


@message(key=17, versions=range(2), type="response")
class SaslHandshakeResponse:
    """The mechanisms that the listener has, also with UNSUPPORTED_SASL_MECHANISM."""

    error_code: int = int16()
    mechanisms: tuple[str, ...] = array(string())
