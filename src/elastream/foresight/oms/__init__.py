"""Sequences: the cuts of several migrations, chosen together."""
