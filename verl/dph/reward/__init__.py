"""Rewards from the scorer server, over HTTP."""
