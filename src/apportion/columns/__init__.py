"""Kafka's record batches as Arrow record batches; start at `read.py`.

Below floor 5 only this package imports numba and pyarrow.
"""
