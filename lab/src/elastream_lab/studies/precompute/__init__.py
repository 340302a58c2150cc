"""Projected costs of all partitions on Spark, and of a pool: papers 000, figure 11; 001, 14."""
