"""The paper's published figures, and tables in its layouts."""
