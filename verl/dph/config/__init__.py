"""The settings' YAML files, and the start of a program with them."""
