"""The reference application of paper 004: the most frequent routes of New York's taxis."""
