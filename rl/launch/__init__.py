"""The launcher of a run: what a launch script does once it knows which node this is."""
