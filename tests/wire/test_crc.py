"""The checksum of record batches."""

import crc32c as package

from apportion.wire.crc import crc32c


def test_the_checksum_is_that_of_the_standard_and_of_the_package() -> None:
    # The check value of CRC-32C (RFC 3720, appendix B.4, has others).
    assert crc32c(b"123456789") == package.crc32c(b"123456789") == 0xE3069283


def test_the_checksum_goes_on_from_an_earlier_one() -> None:
    assert crc32c(memoryview(b"6789"), crc32c(b"12345")) == crc32c(b"123456789")
