"""Our assignors as plug-ins of other clients.

Each module needs the client that it is named after.
"""
