"""MTM-aware planning: one migration, with the odds of later ones in view."""
