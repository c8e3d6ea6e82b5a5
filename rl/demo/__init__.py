"""The demo and the study: a text-to-SQL task and a tiny model, both made from a seed (docs/explanation/demo.md)."""
