"""elastream makes stateful streams on Apache Spark elastic."""
