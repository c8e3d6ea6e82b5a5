"""The report: one HTML page and its JSON."""
