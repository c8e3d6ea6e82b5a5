"""The D_pef store: format, construction and verification, and the order in which training visits its rows."""
