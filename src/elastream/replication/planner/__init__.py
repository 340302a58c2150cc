"""Choose replicas and nodes of the operators of a graph: EDRP and rEDRP (paper 004)."""
