"""The rule of members that work in batches, such as a Spark query."""
