"""The demo and the study: a text-to-SQL task and a tiny model, made from a seed (docs/explanation/demo.md, study.md)."""
