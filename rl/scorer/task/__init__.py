"""Rewards of custom tasks: a Python function in a file of the user."""
