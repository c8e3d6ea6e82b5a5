"""From sample records (JSONL) to Pass@k, what was kept of the base model, solution styles, and the report."""
