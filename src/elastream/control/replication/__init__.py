"""The replication loop (S-EDRP, paper 004 section 6): a pure step and a thin driver."""
