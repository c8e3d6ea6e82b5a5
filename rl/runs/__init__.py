"""Training runs by their folders: follow one (dph watch), compare several (dph compare)."""
