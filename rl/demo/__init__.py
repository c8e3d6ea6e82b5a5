"""The demo's text-to-SQL task and its tiny base model, both generated from a seed (docs/explanation/demo.md)."""
