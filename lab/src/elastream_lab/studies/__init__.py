"""The papers' experiments made anew, a folder a theme."""
