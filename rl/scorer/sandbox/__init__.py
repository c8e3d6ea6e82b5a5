"""Limits that the Linux kernel enforces on a worker process: Landlock for files, seccomp for system calls.

No package is used: a worker for SQL starts without site-packages, pyseccomp needs the C library libseccomp, and
landlock has only pre-releases.
"""
