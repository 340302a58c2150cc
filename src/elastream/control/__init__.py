"""Steering a running loop from outside its program: commands, and the doors they come through."""
