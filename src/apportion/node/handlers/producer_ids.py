"""InitProducerId: a number that no other producer has. Transactional ids are refused until there
are transactions.
"""

from apportion.errors import Code
from apportion.machine import Arrived, Instant
from apportion.node.broker import Answer, BrokerContext, Handler
from apportion.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse


def init_producer_id(broker: BrokerContext, arrived: Arrived, _now: Instant) -> Answer:
    """A new producer id in epoch 0, never given out before, not even before a crash."""
    request: InitProducerIdRequest = arrived.request
    if request.transactional_id is not None:
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


HANDLERS: dict[type, Handler] = {InitProducerIdRequest: init_producer_id}
