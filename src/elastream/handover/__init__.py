"""The protocol by which a windowed query is handed over: two pure machines and thin drivers."""
