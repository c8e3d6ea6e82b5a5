"""From the published files of the benchmarks to the parquet rows that sampling, training and evaluation read.

    commands.py         the command lines, of `dph prepare` and data/*/prepare_*.py
    published.py        published files, from a disk or the Hugging Face Hub, and their records
    sql.py              rows of the SQL benchmarks
    spider2.py          Spider 2.0-Lite's tasks and their stored results
    schema.py           a SQLite database as CREATE TABLE statements with example values
    values.py           values that a question names
    math.py             rows of DAPO-Math-17K and the math test sets
    ground_truth.py     reference answers as texts that the scorer can read
    prompt_template.py  the prompts
    token_budget.py     the token budget of a prompt
    row_writer.py       ids, the row format, the output file and the list of records that are left out

docs/howto/data.md describes the commands.
"""
