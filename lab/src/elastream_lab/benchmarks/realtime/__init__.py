"""``elastream bench realtime``: latency of a Real-time query, alone, attached, and in changes."""
