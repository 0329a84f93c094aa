"""The error of an owner whose member the coordinator refuses for its topics.

The coordinator does not say which of the topics it means. Metadata does: with the same permission,
each topic is refused for itself.
"""

from apportion.errors import Refused, Unanswerable
from apportion.member.membership import View
from apportion.member.queries import ExistingTopics
from apportion.member.reactions import is_permanent
from apportion.rules import Rule


def raise_refusal(view: View, topics: tuple[str, ...]) -> Rule[None]:
    """Raise Refused if the coordinator refuses the member's requests for now.

    topics: those to which the member subscribes. The error names the ones that are refused, or all
    where none is any more; the next heartbeat, a second later at most, will show that then.
    """
    if view.refusal is None:
        return
    try:
        yield ExistingTopics(topics)
    except (Refused, Unanswerable) as error:
        if is_permanent(error):
            raise
        return  # An outage is waited for, as anywhere else.
    raise Refused(view.refusal.code, view.refusal.why)
