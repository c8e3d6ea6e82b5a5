"""Make the parquet rows that sampling, training and evaluation read from the benchmarks' published files.

    commands.py         the command lines of `dph prepare` and data/*/prepare_*.py
    published.py        published files, on a disk or from the Hugging Face Hub, and their records
    sql.py              rows of the SQL benchmarks
    schema.py           a SQLite database as CREATE TABLE statements with example values
    math.py             rows of DAPO-Math-17K and the math test sets
    ground_truth.py     reference answers as texts that the scorer can read
    prompt_template.py  the prompts
    row_writer.py       ids, the row format, the output file and the list of omitted records

docs/howto/data.md describes the commands.
"""
