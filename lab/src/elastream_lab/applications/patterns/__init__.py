"""Raw records as traces: words and patterns, as in papers 000 and 001."""
