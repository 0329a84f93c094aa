"""One file for each family of requests, each with a table `HANDLERS` of its own."""
