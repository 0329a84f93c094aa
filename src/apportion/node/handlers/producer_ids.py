"""InitProducerId: an id for an idempotent producer (KIP-98).

Transactional ids are refused, because there are no transactions.
"""

from apportion.errors import Code
from apportion.machine import Arrived, Instant
from apportion.node.broker import Answer, BrokerContext, BrokerHandler
from apportion.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse


def init_producer_id(broker: BrokerContext, arrived: Arrived, _now: Instant) -> Answer:
    """Handle InitProducerId: return a producer id that was never given out, in epoch 0.

    The id is new even after a crash.
    Errors: TRANSACTIONAL_ID_AUTHORIZATION_FAILED, INVALID_REQUEST.
    """
    request: InitProducerIdRequest = arrived.request
    if request.transactional_id is not None:
        # Kafka, too, answers an empty transactional id with INVALID_REQUEST.
        code = (
            Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
            if request.transactional_id
            else Code.INVALID_REQUEST
        )
        return Answer(InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1))
    return Answer(
        InitProducerIdResponse(
            producer_id=broker.topic_service.allocate_producer_id(), producer_epoch=0
        )
    )


HANDLERS: dict[type, BrokerHandler] = {InitProducerIdRequest: init_producer_id}
