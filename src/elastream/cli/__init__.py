"""The command line: reads settings and files, wires the adapters, prints."""
