"""Papers 000 and 001, section 6: what a month of migrations costs."""
