"""The lifetime of a session: how long a connection is good for after SASL authentication (KIP-368).

A client that authenticates again in time keeps its connection. It must be the same user, by the
same mechanism.
"""

EARLIEST_SHARE, LATEST_SHARE = 0.85, 0.95
"""The part of a session's lifetime after which a client authenticates again, as in Kafka."""


def session_lifetime_ms(expires_at_ms: int | None, most_ms: int, now_ms: int) -> int | None:
    """Return how long a session lasts that begins now, 0 for one that is over; None for ever.

    expires_at_ms: when the credentials end; None for never. now_ms: on the wall clock, too.
    most_ms: `connections.max.reauth.ms`; 0 for no bound.
    SaslAuthenticate has 0 for None, so a client whose credentials have just ended is told nothing.
    """
    bounds = [most_ms] if most_ms > 0 else []
    if expires_at_ms is not None:
        bounds.append(max(0, expires_at_ms - now_ms))
    return min(bounds, default=None)


def reauthentication_delay_ms(lifetime_ms: int, draw: float) -> int:
    """Return how long after authentication a client authenticates again.

    draw: a random number from 0 to 1, so that clients that came together do not do so, too.
    """
    return int(lifetime_ms * (EARLIEST_SHARE + (LATEST_SHARE - EARLIEST_SHARE) * draw))
