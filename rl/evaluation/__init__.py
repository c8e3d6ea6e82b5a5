"""Evaluation: from sample records (JSONL) to Pass@k, retention, solution styles and the report."""
