"""Past load: traces on disk, what the loop records of itself, and what is learnt from it."""
