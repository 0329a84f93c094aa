"""Members that read in micro-batches, such as Spark queries: which batch comes next."""
