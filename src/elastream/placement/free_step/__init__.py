"""Free-step: any task to any node, the least state moved."""
