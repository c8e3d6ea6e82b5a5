"""Metrics of samples, without files or settings: Pass@k, majority, styles, distinct-n, bootstrap intervals."""
