"""Windowed queries on Spark that can be handed over to another application."""
