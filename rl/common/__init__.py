"""Errors, files, signals and fingerprints, for every program of the project."""
