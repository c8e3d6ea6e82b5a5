"""The settings, and what starts a program with them."""
