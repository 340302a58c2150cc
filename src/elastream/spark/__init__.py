"""The only package that imports pyspark: the cluster, its executors, where state lives."""
