"""Will it run? Checks of a run, of this machine and of its environment, without verl and torch (docs/howto/plan.md).

`run.py` lists the checks of a run's configuration, `doctor.py` the checks of the machine. Checks of a run that need
verl are in verl/dph/checks.
"""
