"""f-divergences, the loss modes that use them, and the schedule of eta. Torch only."""
