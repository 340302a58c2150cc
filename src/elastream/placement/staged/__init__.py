"""The least state moved in one migration with several stages, slots and memory."""
