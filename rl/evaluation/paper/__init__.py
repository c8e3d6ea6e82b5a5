"""The published figures, and tables in the layouts of the paper."""
