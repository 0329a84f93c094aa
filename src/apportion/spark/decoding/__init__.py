"""Values of a schema registry as Spark columns: Avro, JSON Schema and Protobuf."""
