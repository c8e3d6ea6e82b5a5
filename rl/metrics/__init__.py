"""Metrics of sampled responses: Pass@k, maj@k, solution styles, distinct-n, bootstrap intervals."""
