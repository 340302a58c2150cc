"""``elastream bench peers``: the same rows, state and change on Flink and here."""
