"""What the Linux kernel denies a worker process: Landlock for files, seccomp for system calls.

No package is used: a worker for SQL starts without site-packages, pyseccomp needs the C library libseccomp beside it,
and landlock has pre-releases only.
"""
