"""The one exception of this package."""


class ClusterError(Exception):
    """The nodes cannot work together, or no longer do. Its text is one sentence: what was found, and what to do.

    Args:
        exit_code: of the program; 2 where a setting is to be mended, 1 where a node was lost.
    """

    def __init__(self, sentence: str, exit_code: int = 2):
        super().__init__(sentence)
        self.exit_code = exit_code
