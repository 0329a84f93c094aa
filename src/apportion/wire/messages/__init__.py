"""The messages of the protocol, one module for each API.

Messages are plain values, read and written by `apportion.wire.codec`.
"""
