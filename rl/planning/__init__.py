"""The memory and the time of a run's step, estimated before it starts."""
