"""A Spark standalone cluster of this machine: what `make cluster-up` and `make cluster-down` call.

PostgreSQL holds the metastore. A master and its workers run a Spark Connect server and a Thrift
server, both over the same tables. All of it comes from the Spark that pip installed, and from the
PostgreSQL of the system; there are no containers. docs/cluster.md explains it.
"""
