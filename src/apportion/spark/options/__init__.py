"""Options of queries, batch reads and writes: declared, parsed and checked before Spark starts."""
