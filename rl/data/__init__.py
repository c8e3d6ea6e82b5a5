"""Prompts, samples, the split, and the programs that make and inspect them."""
