"""How long a session lasts, and when a client authenticates again (KIP-368)."""

import pytest

from apportion.security.sessions import reauthentication_delay_ms, session_lifetime_ms


@pytest.mark.parametrize(
    ("expires_at_ms", "most_ms", "lifetime_ms"),
    [
        (None, 0, None),
        (None, 60_000, 60_000),
        (None, 1, 1),
        (5_000, 0, 4_000),
        (5_000, 60_000, 4_000),
        (5_000, 3_000, 3_000),
        (1_000, 0, 0),
        (500, 60_000, 0),
    ],
)
def test_a_session_ends_with_its_credentials_or_at_the_bound(
    expires_at_ms: int | None, most_ms: int, lifetime_ms: int | None
) -> None:
    assert session_lifetime_ms(expires_at_ms, most_ms, now_ms=1_000) == lifetime_ms


@pytest.mark.parametrize(("draw", "delay_ms"), [(0.0, 51_000), (0.5, 54_000), (1.0, 57_000)])
def test_a_client_authenticates_again_before_its_session_ends(draw: float, delay_ms: int) -> None:
    assert abs(reauthentication_delay_ms(60_000, draw) - delay_ms) <= 1
