"""Paper 002, section 4: a query handed over between two applications."""
