"""From sample files to the numbers and comparisons of a report."""
