"""Replication goal (EDRP, paper 004): the number of executors and the operators on each."""
