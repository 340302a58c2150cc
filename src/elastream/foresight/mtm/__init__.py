"""MTM-aware planning: one migration, with the odds of those to come in view."""
