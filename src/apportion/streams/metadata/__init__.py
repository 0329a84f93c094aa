"""What Streams members send each other in a classic group: the metadata, its versions and bytes."""
