"""Metrics of sampled responses: Pass@k, maj@k, distinct answers, solution styles, bootstrap intervals."""
