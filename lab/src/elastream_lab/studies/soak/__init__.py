"""Runs of a day and of a month: whether anything grows that should not."""
