"""Rewards of users' own tasks: a Python function in a file of theirs."""
