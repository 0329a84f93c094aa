"""What Kafka Streams members and their leader tell each other: values, bytes, versions, version
probing.
"""
