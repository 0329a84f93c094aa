"""apportion beside Apache Kafka, kfake and Spark's own Kafka source: `make bench-peers`.

`rows` says what is measured and how figures become ratios, `downloads` how a peer is had,
`brokers` how it is run; `bulk`, `steady`, `membership` and `spark_rows` are the loads; `report`
prints.
"""
