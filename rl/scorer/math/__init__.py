"""Grading mathematical answers: reading the answer (server process) and comparing it by math-verify (workers)."""

import os

# Before anything imports sympy: with gmpy2, where it is installed, a power such as 5^{5^{5^5}} aborts the process or
# cannot be interrupted; Python's own integers can.
os.environ.setdefault("SYMPY_GROUND_TYPES", "python")
os.environ.setdefault("MPMATH_NOGMPY", "1")
