"""The lab beside elastream: reference applications, rivals, studies and benchmarks."""
