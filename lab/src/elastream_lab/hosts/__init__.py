"""Hosts of one machine: network namespaces, each with its own address and its own ``/tmp``."""
