"""The loop: monitor, analyse, plan, execute. A pure step and a thin driver over small ports."""
