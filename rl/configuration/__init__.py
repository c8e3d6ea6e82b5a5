"""The configuration of every program, composed and checked without verl and torch, which take seconds to import."""
