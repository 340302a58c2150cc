"""Projected costs of all partitions on Spark, beside a pool: papers 000, figure 11, and 001, 14."""
