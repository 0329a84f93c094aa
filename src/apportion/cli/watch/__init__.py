"""The command `apportion watch`: a group's owners, lag and rebalances while they change."""
