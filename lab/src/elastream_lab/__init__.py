"""The lab next to elastream: reference applications, rivals, studies and benchmarks."""
