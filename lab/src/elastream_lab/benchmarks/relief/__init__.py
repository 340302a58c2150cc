"""The relief benchmark: what a change of executors brings, next to what was predicted and ideal."""
