"""From the published files of the benchmarks to the parquet rows that sampling, training and evaluation read.

    inputs.py        JSON, JSON lines and parquet files, record by record
    rows.py          ids, the row format, the output file and the list of records that are left out
    schema.py        a SQLite database as CREATE TABLE statements with example values
    prompt.py        the prompts
    budget.py        the token budget of a prompt
    sql.py           the BIRD and Spider commands
    answers.py       reference answers as texts that the scorer can read
    mathematics.py   the commands for DAPO-Math-17K and the math test sets

data/sql/prepare_*.py and data/math/prepare_*.py are their command lines; docs/data.md tells the whole road.
"""
