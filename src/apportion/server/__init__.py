"""Sockets around a Node: requests in, responses out in order, memory for each peer limited."""
