"""The console program `dph`."""
