"""Messages of topics in Avro and Protobuf, and the schemas that they are written with."""
