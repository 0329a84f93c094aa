"""The failure of a Streams member whose application lacks source topics."""

from apportion.errors import Code
from apportion.member.assignors.interface import MemberFailure
from apportion.readable import listed
from apportion.streams.topology import MissingSources, Topology


def missing_sources(topology: Topology, missing: tuple[str, ...]) -> MemberFailure:
    """Return the failure that source topics of the topology do not exist, with their names.

    missing: those that do not, if this member has assigned; () if another has.
    """
    sources = topology.external_topics
    if missing or len(sources) == 1:
        known = MissingSources(missing or sources)
        return MemberFailure(known.code, known.why)
    # An assignment says that some are missing, and not which.
    return MemberFailure(
        Code.UNKNOWN_TOPIC_OR_PARTITION,
        f"source topics are missing, of {listed(sources)}: the log of the instance that assigned "
        "names them; create them, and start again",
    )
