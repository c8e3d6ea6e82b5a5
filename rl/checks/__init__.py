"""Will it run? Checks of a run, of this machine and of its environment, without verl and torch (docs/howto/plan.md).

`run.py` lists the checks of a run's configuration, `environment.py` those of the machine. Those that need verl
are in verl/dph/checks.
"""
