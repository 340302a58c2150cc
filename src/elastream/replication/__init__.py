"""Replicas and hosts of operators, chosen together (EDRP, paper 004): a wing of elastream."""
