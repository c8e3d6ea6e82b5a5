"""The launcher of a run: a launch script calls it once it knows which node this is."""
