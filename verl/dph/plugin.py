"""The `verl.plugins` entry point: what must be known in every process that imports verl."""


def register() -> None:
    """Called by `import verl` in the driver and in every Ray worker."""
