"""The compression codecs of record batches by their number, into bounded memory.

The largest possible result is read from the compressed framing before anything is allocated, so a
decompression bomb costs no more than `limit`. LZ4 is written as one frame of independent blocks,
the only kind that Java's reader accepts.
"""

import zlib
from collections.abc import Callable

import cramjam

from apportion.errors import DecodeError
from apportion.wire.codec import Buffer

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)

XERIAL_MAGIC = b"\x82SNAPPY\x00"
XERIAL_HEADER = XERIAL_MAGIC + (1).to_bytes(4, "big") * 2
# The framing of the Java library, in which Kafka's own clients write.
XERIAL_BLOCK_BYTES = 32 << 10
LZ4_MAGIC = 0x184D2204
# version 1, independent blocks of 64 KiB, no checksums
LZ4_HEADER = bytes.fromhex("04224d18604082")
LZ4_BLOCK_BYTES = 64 << 10
ZSTD_MAGIC = 0xFD2FB528
ZSTD_BLOCK_BYTES = 128 << 10


class DecompressionLimitExceeded(DecodeError):
    """Compressed data that holds more bytes than the limit allows."""


def compress(codec: int, data: Buffer) -> bytes:
    """Compress the records of a batch. Raises ValueError for an unknown codec."""
    if codec not in _COMPRESS:
        raise ValueError(f"no compression codec has the number {codec}")
    return _COMPRESS[codec](memoryview(data))


def decompress(codec: int, data: Buffer, limit: int) -> bytes:
    """Decompress the records of a batch.

    Errors: DecodeError when they are malformed, DecompressionLimitExceeded when they are more than
    `limit` bytes.
    """
    return bytes(DecompressionBuffer().decompress(codec, data, limit))


class DecompressionBuffer:
    """A reusable buffer that grows to the largest batch decompressed into it."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def decompress(self, codec: int, data: Buffer, limit: int) -> memoryview:
        """Decompress a batch's records; the view is valid until the next call.

        Errors as in the function `decompress`.
        """
        view = memoryview(data)
        if codec == NONE:
            return _within(view, limit)
        if codec == GZIP:
            return memoryview(_gunzip(view, limit))
        if codec not in _BOUND:
            raise DecodeError(f"no compression codec has the number {codec}")
        max_bytes = 0
        try:
            # From the framing alone, before a byte is allocated: a batch of a few bytes may claim
            # gigabytes.
            max_bytes = _BOUND[codec](view)
            bound = min(max_bytes, limit)
            if len(self._bytes) < bound:
                self._bytes = bytearray(bound)
            output = memoryview(self._bytes)[:bound]
            return output[: _DECOMPRESS[codec](view, output)]
        except cramjam.DecompressionError as error:
            # it would have fitted its own bound: only the limit made it fail
            if max_bytes > limit:
                raise DecompressionLimitExceeded(
                    f"more than {limit} bytes of compressed data"
                ) from None
            raise DecodeError(f"malformed compressed data: {error}") from None
        except IndexError:
            raise DecodeError("compressed data ends too early") from None


def _within(view: memoryview, limit: int) -> memoryview:
    """Return the records of an uncompressed batch, if they are not more than `limit` bytes."""
    if len(view) > limit:
        raise DecompressionLimitExceeded(f"{len(view)} bytes of records where {limit} are allowed")
    return view


def _number(view: memoryview, at: int, size: int) -> int:
    """Return the little-endian number of `size` bytes at `at` in an LZ4 or Zstandard frame."""
    if at + size > len(view):
        raise IndexError
    return int.from_bytes(view[at : at + size], "little")


# gzip


def _gzip(view: memoryview) -> bytes:
    # Bits 31: with the header and trailer of a gzip file, which Java's reader expects.
    return zlib.compress(view, 6, wbits=31)


def _gunzip(view: memoryview, limit: int) -> bytes:
    """Decompress a batch's records from gzip, up to `limit` bytes."""
    parts, total, rest = [], 0, bytes(view)
    try:
        # A gzip stream may have several members, one behind the other.
        while rest:
            stream = zlib.decompressobj(wbits=31)
            # One byte more than is allowed, to tell "exactly enough" from "too much".
            parts.append(stream.decompress(rest, limit - total + 1))
            total += len(parts[-1])
            if total > limit:
                raise DecompressionLimitExceeded(f"more than {limit} bytes of compressed data")
            if not stream.eof:
                raise DecodeError("compressed data ends too early")
            rest = stream.unused_data
    except zlib.error as error:
        raise DecodeError(f"malformed gzip data: {error}") from None
    if not parts:
        raise DecodeError("compressed data ends too early")
    return parts[0] if len(parts) == 1 else b"".join(parts)


# snappy: raw, or blocks in the framing of the Java library


def _snappy(view: memoryview) -> bytes:
    """Compress a batch's records by Snappy, in the Java library's framing (xerial)."""
    parts = [XERIAL_HEADER]
    for start in range(0, len(view), XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + XERIAL_BLOCK_BYTES]))
        parts += (len(block).to_bytes(4, "big"), block)
    return b"".join(parts)


def _snappy_blocks(view: memoryview) -> list[memoryview]:
    """Return a batch's Snappy blocks in the Java library's framing; raw Snappy is one block."""
    if view[:8] != XERIAL_MAGIC:
        return [view]
    blocks, at = [], 16
    while at < len(view):
        size = int.from_bytes(view[at : at + 4], "big")
        if at + 4 + size > len(view):
            raise IndexError
        blocks.append(view[at + 4 : at + 4 + size])
        at += 4 + size
    return blocks


def _snappy_bound(view: memoryview) -> int:
    """Return how many bytes the blocks decompress to."""
    return sum(cramjam.snappy.decompress_raw_len(block) for block in _snappy_blocks(view))


def _unsnappy(view: memoryview, output: memoryview) -> int:
    """Decompress a batch's records from Snappy into `output`; return their size."""
    end = 0
    for block in _snappy_blocks(view):
        if cramjam.snappy.decompress_raw_len(block):
            end += cramjam.snappy.decompress_raw_into(block, output[end:])
    return end


# lz4


def _lz4(view: memoryview) -> bytes:
    """Compress a batch's records as one LZ4 frame of independent blocks."""
    parts = [LZ4_HEADER]
    for start in range(0, len(view), LZ4_BLOCK_BYTES):
        plain = view[start : start + LZ4_BLOCK_BYTES]
        block = bytes(
            cramjam.lz4.compress_block(plain, mode="fast", acceleration=1, store_size=False)
        )
        # A block that does not become smaller is stored as it is; the highest bit of its length
        # says so.
        if len(block) < len(plain):
            parts += (len(block).to_bytes(4, "little"), block)
        else:
            parts += ((len(plain) | 1 << 31).to_bytes(4, "little"), bytes(plain))
    return b"".join([*parts, bytes(4)])


def _lz4_blocks(view: memoryview) -> tuple[bool, int, list[tuple[bool, memoryview]]]:
    """Return the blocks of a batch's LZ4 frame: (are they independent, most bytes in one, blocks).

    Each block is (is it compressed, its bytes).
    """
    flags, size_code = view[4], view[5] >> 4 & 7
    if _number(view, 0, 4) != LZ4_MAGIC or flags >> 6 != 1 or flags & 1 or size_code < 4:
        raise DecodeError("not a frame of lz4 without a dictionary")
    max_block_bytes, trailer = 1 << 8 + 2 * size_code, 4 if flags & 0x10 else 0
    at, blocks = 7 + (8 if flags & 8 else 0), []
    while word := _number(view, at, 4):
        size = word & 0x7FFF_FFFF
        # Otherwise a block could claim more than the buffer for it.
        if size > max_block_bytes:
            raise DecodeError(f"an lz4 block of {size} bytes where {max_block_bytes} are allowed")
        if at + 4 + size + trailer > len(view):
            raise IndexError
        blocks.append((word >> 31 == 0, view[at + 4 : at + 4 + size]))
        at += 4 + size + trailer
    if at + 4 + (4 if flags & 4 else 0) != len(view):
        raise DecodeError("an lz4 frame that does not end where its data ends")
    return bool(flags & 0x20), max_block_bytes, blocks


def _lz4_bound(view: memoryview) -> int:
    """Return the most bytes that a batch's LZ4 frame can decompress to."""
    # LZ4 packs at most 255 bytes into one
    _, max_block_bytes, blocks = _lz4_blocks(view)
    return sum(
        min(max_block_bytes, 255 * len(block)) if is_compressed else len(block)
        for is_compressed, block in blocks
    )


def _unlz4(view: memoryview, output: memoryview) -> int:
    """Decompress a batch's records from an LZ4 frame into `output`; return their size."""
    are_independent, max_block_bytes, blocks = _lz4_blocks(view)
    # A linked block refers to the bytes of those before it, so only the whole frame can be read.
    if not are_independent and len(blocks) > 1:
        return int(cramjam.lz4.decompress_into(view, output))
    end = 0
    for is_compressed, block in blocks:
        if is_compressed:
            free = min(max_block_bytes, len(output) - end)
            end += cramjam.lz4.decompress_block_into(
                block, output[end : end + free], output_len=free
            )
        elif len(block) > len(output) - end:
            raise cramjam.DecompressionError("no room for a stored block")
        else:
            output[end : end + len(block)] = block
            end += len(block)
    return end


# zstd


def _zstd(view: memoryview) -> bytes:
    # Kafka's default level.
    return bytes(cramjam.zstd.compress(view, level=3))


def _zstd_bound(view: memoryview) -> int:
    """Return the most bytes that a batch's Zstandard frames can decompress to."""
    at, total = 0, 0
    while at < len(view):
        # A stream may have several frames, one behind the other.
        magic = _number(view, at, 4)
        if magic >> 4 == 0x184D2A5:  # a skippable frame
            at += 8 + _number(view, at + 4, 4)
        elif magic == ZSTD_MAGIC:
            at, size = _zstd_frame(view, at + 4)
            total += size
        else:
            raise DecodeError("not a frame of zstd")
    return total


def _zstd_frame(view: memoryview, at: int) -> tuple[int, int]:
    """Return where the zstd frame ends, and the most bytes that its blocks can hold.

    at: the position of its frame header descriptor.
    """
    flags, total, last = view[at], 0, 0
    single = flags >> 5 & 1
    content_size_bytes = (single, 2, 4, 8)[flags >> 6]
    at += 1 + (1 - single) + (0, 1, 2, 4)[flags & 3]
    declared = _number(view, at, content_size_bytes) + (256 if content_size_bytes == 2 else 0)
    at += content_size_bytes
    while not last:
        word = _number(view, at, 3)
        last, kind, size = word & 1, word >> 1 & 3, word >> 3
        at += 3 + (1 if kind == 1 else size)
        total += ZSTD_BLOCK_BYTES if kind == 2 else min(size, ZSTD_BLOCK_BYTES)
    # The declared size is not believed where the blocks cannot hold that much.
    return at + (4 if flags & 4 else 0), min(total, declared) if content_size_bytes else total


def _unzstd(view: memoryview, output: memoryview) -> int:
    return int(cramjam.zstd.decompress_into(view, output))


_COMPRESS: dict[int, Callable[[memoryview], bytes]] = {
    NONE: bytes,
    GZIP: _gzip,
    SNAPPY: _snappy,
    LZ4: _lz4,
    ZSTD: _zstd,
}
_BOUND: dict[int, Callable[[memoryview], int]] = {
    SNAPPY: _snappy_bound,
    LZ4: _lz4_bound,
    ZSTD: _zstd_bound,
}
_DECOMPRESS: dict[int, Callable[[memoryview, memoryview], int]] = {
    SNAPPY: _unsnappy,
    LZ4: _unlz4,
    ZSTD: _unzstd,
}
