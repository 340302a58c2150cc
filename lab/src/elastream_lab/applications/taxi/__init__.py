"""The taxi query of paper 004: the most frequent routes."""
