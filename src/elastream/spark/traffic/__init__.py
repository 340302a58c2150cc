"""The reference application of paper 003: a monitor of network traffic over several sub-streams."""
