"""The client: blocking sockets, routing, a member on a thread, and `Consumer`."""
