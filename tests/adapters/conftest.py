"""Importing kafka-python warns of something that its makers will have to mend; every other warning
is an error.
"""

import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka  # noqa: F401
