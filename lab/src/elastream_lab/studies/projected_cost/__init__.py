"""The projected cost of a plan by each reading of papers 000 and 001, for comparison."""
