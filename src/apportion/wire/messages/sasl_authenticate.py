"""SaslAuthenticate: carry the bytes of a SASL mechanism, and its errors (KIP-152)."""

from apportion.wire.fields import int16, int64, message, octets, string


@message(key=36, versions=range(3), flexible=2, type="request")
class SaslAuthenticateRequest:
    """The client's next bytes, of the mechanism that SaslHandshake chose."""

    auth_bytes: bytes = octets(secret=True)


@message(key=36, versions=range(3), flexible=2, type="response")
class SaslAuthenticateResponse:
    """The broker's next bytes, or the error that ends the exchange.

    session_lifetime_ms: when the client must authenticate again on this connection; 0 for never
    (KIP-368).
    """

    error_code: int = int16()
    error_message: str | None = string(nullable=0, default=None)
    auth_bytes: bytes = octets(secret=True)
    session_lifetime_ms: int = int64(since=1, ignorable=True)
