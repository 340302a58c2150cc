"""The failure benchmark: one stream with an executor killed, by Spark alone and by elastream."""
