"""The demo and the study: a SQL task and a tiny model, made from a seed (docs/explanation/demo.md and study.md)."""
