"""The gold audit, `dph audit`: which gold answers of a dataset fail, time out or return nothing.

command.py    its options and what it writes
golds.py      reads the questions and runs each distinct gold query once
"""
