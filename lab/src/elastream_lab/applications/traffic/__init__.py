"""The traffic monitor of paper 003: aggregations over packets."""
