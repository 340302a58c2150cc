"""Free step: any task on any node, moving the least state."""
