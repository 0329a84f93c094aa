"""Metadata that Streams members send each other in a classic group: model, versions and bytes."""
