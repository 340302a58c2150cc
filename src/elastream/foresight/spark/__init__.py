"""Values of partitions on Spark (PMC): the long loops, and the files."""
