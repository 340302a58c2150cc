"""The doctor: whether attaching would work on a machine and a cluster, and what to do where not."""
