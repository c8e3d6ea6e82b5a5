"""Grading of mathematical answers. The server process loads `scoring`; workers load the rest, and sympy."""

import os

# Before anything imports sympy: with gmpy2, where it is installed, a power such as 5^{5^{5^5}} aborts the process or
# cannot be interrupted; Python's own integers can.
os.environ.setdefault("SYMPY_GROUND_TYPES", "python")
os.environ.setdefault("MPMATH_NOGMPY", "1")
