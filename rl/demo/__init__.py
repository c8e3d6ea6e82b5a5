"""The demo and the study: a SQL task and a tiny model, made from a seed (docs/tutorials/demo.md)."""
