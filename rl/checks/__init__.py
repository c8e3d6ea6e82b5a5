"""Will it run? Checks of a run, of this machine and of its environment, without verl and torch (docs/howto/plan.md).

`run.py` lists the checks of a run's configuration, `doctor.py` those of the machine; verl/dph/checks has the checks of
a run that need verl.
"""
