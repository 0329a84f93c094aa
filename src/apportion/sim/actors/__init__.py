"""The processes of a simulation: broker, group members, topic administration."""
