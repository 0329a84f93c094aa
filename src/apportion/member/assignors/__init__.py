"""Client-side assignors: the public interface, those that come with the package, and their
bytes.
"""
