"""Values of partitions on Spark (PMC): who runs the long loops, and what is kept on disk."""
