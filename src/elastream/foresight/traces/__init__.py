"""Past load: traces on disk, the core's own records, and what is learnt from them."""
