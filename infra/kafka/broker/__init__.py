"""A small Kafka broker for one machine: the embedded default of `soltape up`.

It speaks Kafka's protocol to aiokafka, librdkafka and Faust, keeps its log on disk within a
byte limit, and wakes a waiting fetch when data arrives. It is not Apache Kafka: one node, no
replication, no ACLs, loopback only. A transactional id fences older producers, and that is all:
transactions are not atomic and cannot be aborted. For production point KAFKA_BOOTSTRAP at a
cluster.
"""
