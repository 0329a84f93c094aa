"""Topics read by Spark tasks: columns, slices, batch reads, and what older releases need."""
