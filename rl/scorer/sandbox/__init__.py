"""What the Linux kernel denies a worker process: Landlock for files, seccomp for system calls.

Our own, because a worker for SQL starts without site-packages: of the packages, pyseccomp needs the C library libseccomp
beside it, and landlock has pre-releases only.
"""
