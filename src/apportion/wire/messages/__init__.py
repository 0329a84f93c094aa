"""The messages of the protocol, one module for each API.

They are plain values, read and written by `apportion.wire.codec`.
"""
