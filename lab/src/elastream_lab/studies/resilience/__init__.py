"""Paper 003, section 7: placements that bear bursts."""
