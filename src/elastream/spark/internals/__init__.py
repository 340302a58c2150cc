"""Spark's private door: the one room that reaches behind PySpark's public interface."""
