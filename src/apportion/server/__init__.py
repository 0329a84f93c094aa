"""Sockets around a Node: frames in, replies out in request order, and no more memory for a peer
than its limits allow.
"""
