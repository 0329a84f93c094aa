"""The classic group protocol: JoinGroup, SyncGroup, Heartbeat and LeaveGroup.

A member leads and assigns; the coordinator collects and hands out.
"""
