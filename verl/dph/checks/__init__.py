"""Checks of a run that need verl's or transformers' classes; rl/checks has those that do not. `run.py` lists them."""
