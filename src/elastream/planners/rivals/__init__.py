"""What others do: the papers' own algorithms and the usual baselines."""
