"""From sample files to the metrics and comparisons of a report."""
