"""The reference applications, a folder each."""
