"""The reward server: turns a model's answer into a score over HTTP. Installs and runs without torch or verl."""
