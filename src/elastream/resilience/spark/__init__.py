"""What tasks cost, measured on Spark."""
