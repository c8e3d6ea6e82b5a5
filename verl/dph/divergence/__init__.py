"""f-divergences, the loss modes that use them, and eta over time. Torch only."""
