"""Kafka's UUIDs as text: topic ids, and the member ids of the consumer group protocol (KIP-848)."""

from base64 import urlsafe_b64encode


def uuid_text(uuid: bytes) -> str:
    """Return 16 bytes as Kafka's tools print them: 22 characters of URL-safe base64."""
    return urlsafe_b64encode(uuid).rstrip(b"=").decode()


def new_member_id(fresh: bytes) -> str:
    """Return 16 random bytes as a member id in Kafka's form.

    It has no leading dash, which command-line tools would take for an option.
    """
    text = uuid_text(fresh)
    return text if text[0] != "-" else new_member_id(bytes([fresh[0] & 0x7F, *fresh[1:]]))
