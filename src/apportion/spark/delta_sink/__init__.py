"""The parts of the exactly-once sink for Delta tables (`delta.py`): its files and its commits."""
