"""UUIDs as text."""

from apportion.wire.uuids import new_member_id, uuid_text


def test_a_made_up_id_never_begins_with_a_dash() -> None:
    rest = bytes(range(1, 16))
    assert new_member_id(b"\x01" + rest) == "AQECAwQFBgcICQoLDA0ODw"
    assert uuid_text(b"\xfb" + rest) == "-wECAwQFBgcICQoLDA0ODw"
    assert (
        new_member_id(b"\xfb" + rest) == new_member_id(b"\x7b" + rest) == "ewECAwQFBgcICQoLDA0ODw"
    )
