"""Make the parquet rows that sampling, training and evaluation read from the benchmarks' published files."""
