"""What tests, ours and other people's, put around the system: brokers to run against."""
