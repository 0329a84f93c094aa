"""Record batches to Arrow. Start at `read.py`; only this package below floor 5 imports numba and
pyarrow.
"""
