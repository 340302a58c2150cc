"""Damaged input by the hundred thousand: every one ends in an answer, a reason, or one line."""
