"""SaslHandshake and SaslAuthenticate where they have no business: refused, and nothing else.

A listener without SASL gives them to the node, and so does a session that cannot be renewed
(`node/sasl_authenticator.py`).
"""

from apportion.errors import Code
from apportion.machine import Arrived, Instant
from apportion.node.broker import Answer, BrokerContext, BrokerHandler
from apportion.wire.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from apportion.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse


def sasl_handshake(_broker: BrokerContext, _arrived: Arrived, _now: Instant) -> Answer:
    """Handle SaslHandshake. Errors: ILLEGAL_SASL_STATE, always, and without mechanisms."""
    return Answer(SaslHandshakeResponse(error_code=Code.ILLEGAL_SASL_STATE))


def sasl_authenticate(_broker: BrokerContext, _arrived: Arrived, _now: Instant) -> Answer:
    """Handle SaslAuthenticate. Errors: ILLEGAL_SASL_STATE, always."""
    return Answer(
        SaslAuthenticateResponse(
            error_code=Code.ILLEGAL_SASL_STATE,
            error_message="This connection needs no SaslAuthenticate: it has no SASL, or the "
            "client has authenticated.",
        )
    )


HANDLERS: dict[type, BrokerHandler] = {
    SaslHandshakeRequest: sasl_handshake,
    SaslAuthenticateRequest: sasl_authenticate,
}
