"""The connections of a process of Spark, and which of them outlive a task."""
