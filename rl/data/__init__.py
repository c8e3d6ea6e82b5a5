"""Prompts, samples and the split, and the programs that make and inspect them."""
