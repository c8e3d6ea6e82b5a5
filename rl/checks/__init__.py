"""Will it run? Checks of a run, of this machine and of its environment, without verl and torch (docs/howto/plan.md).

`run.py` checks a run's configuration, and `environment.py` checks the machine. verl/dph/checks has the checks that need
verl.
"""
