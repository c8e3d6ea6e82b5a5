"""From the published files of the benchmarks to the parquet rows that sampling, training and evaluation read.

    download.py         files of the Hugging Face Hub
    inputs.py           JSON, JSON lines and parquet files, record by record
    row_writer.py       ids, the row format, the output file and the list of records that are left out
    schema.py           a SQLite database as CREATE TABLE statements with example values
    prompt_template.py  the prompts
    token_budget.py     the token budget of a prompt
    sql.py              the SQL benchmarks' commands
    spider2.py          Spider 2.0-Lite's tasks and their stored results
    values.py           values that a question names
    ground_truth.py     reference answers as texts that the scorer can read
    math.py             the commands for DAPO-Math-17K and the math test sets

data/sql/prepare_*.py and data/math/prepare_*.py are their command lines; docs/howto/data.md tells the whole road.
"""
