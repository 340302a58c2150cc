"""Traces: what each task had to do and to hold in every interval of a past load."""
