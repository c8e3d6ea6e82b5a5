"""The reward server: scores model responses over HTTP. Installs and runs without torch or verl."""
