"""`apportion doctor`: whether a Spark query of apportion would run here, check by check."""
