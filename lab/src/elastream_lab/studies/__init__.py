"""The papers' experiments reproduced, a folder a theme."""
