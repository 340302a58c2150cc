"""Free placement with look-ahead: any tasks on any node, with later migrations in view."""
