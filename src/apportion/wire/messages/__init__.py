"""The messages of the protocol, one module for each API: inert values, read and written by
`apportion.wire.codec`.
"""
