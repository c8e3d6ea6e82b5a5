"""Runs a command with what it needs around it on one machine or several: Ray on all, scorer servers, and their end.

scripts/lib/cluster.sh starts `python -m rl.cluster` on every node (docs/cluster.md). It imports neither torch, verl nor
Ray, since it lives as long as training does.
"""
