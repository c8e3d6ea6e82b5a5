"""Checks of a run that need neither verl nor torch: the launcher and the programs call the same functions."""
