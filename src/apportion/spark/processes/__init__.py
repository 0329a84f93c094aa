"""Processes of a Spark application: files by which they talk, and errors that end them."""
