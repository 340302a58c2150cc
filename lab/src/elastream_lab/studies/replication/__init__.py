"""Paper 004, section 7: replicas and their places."""
