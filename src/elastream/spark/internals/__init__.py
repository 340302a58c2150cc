"""Spark's internals: the one package that reaches behind PySpark's public interface."""
