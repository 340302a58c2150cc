"""Migrations planned with those to come in view (papers 000 and 001): a wing of elastream."""
