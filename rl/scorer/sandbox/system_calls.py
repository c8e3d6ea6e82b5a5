"""Numbers of Linux's system calls on x86-64 and on arm64, by what workers may do with them.

From asm/unistd_64.h and asm-generic/unistd.h of Linux 6.1. A dash: the architecture lacks it. From 424 on a call has
one number everywhere.
"""

MACHINES = ("x86_64", "aarch64")
# Later ones are answered as by an older kernel.
LAST = 450

# What an interpreter needs to compute, to read files and to reply: all that workers for SQL and math may do, beside
# what seccomp.py decides by the arguments.
COMPUTING = """
    read 0 63, write 1 64, readv 19 65, writev 20 66, pread64 17 67, lseek 8 62, close 3 57, close_range 436 436,
    dup 32 23, dup2 33 -, dup3 292 24, stat 4 -, lstat 6 -, fstat 5 80, newfstatat 262 79, statx 332 291,
    access 21 -, faccessat 269 48, faccessat2 439 439, readlink 89 -, readlinkat 267 78, getcwd 79 17,
    getdents64 217 61, fadvise64 221 223, mmap 9 222, munmap 11 215, mprotect 10 226, mremap 25 216,
    madvise 28 233, brk 12 214, futex 202 98, sched_yield 24 124, sched_getaffinity 204 123,
    set_robust_list 273 99, rseq 334 293, membarrier 324 283, getcpu 309 168, exit 60 93, exit_group 231 94,
    restart_syscall 219 128, rt_sigaction 13 134, rt_sigprocmask 14 135, rt_sigreturn 15 139, sigaltstack 131 132,
    setitimer 38 103, getitimer 36 102, poll 7 -, ppoll 271 73, select 23 -, pselect6 270 72, nanosleep 35 101,
    clock_nanosleep 230 115, clock_gettime 228 113, clock_getres 229 114, gettimeofday 96 169, time 201 -,
    times 100 153, getrusage 98 165, getpid 39 172, getppid 110 173, gettid 186 178, getuid 102 174,
    geteuid 107 175, getgid 104 176, getegid 108 177, getrlimit 97 163, getrandom 318 278, uname 63 160,
    sysinfo 99 179
"""

# Changes to files by their names, and to what Landlock does not cover: modes, owners, times, attributes.
MODIFYING = """
    unlink 87 -, unlinkat 263 35, rmdir 84 -, rename 82 -, renameat 264 38, renameat2 316 276, mkdir 83 -,
    mkdirat 258 34, mknod 133 -, mknodat 259 33, link 86 -, linkat 265 37, symlink 88 -, symlinkat 266 36,
    creat 85 -, truncate 76 45, chmod 90 -, fchmod 91 52, fchmodat 268 53, chown 92 -, lchown 94 -, fchown 93 55,
    fchownat 260 54, utime 132 -, utimes 235 -, futimesat 261 -, utimensat 280 88, setxattr 188 5, lsetxattr 189 6,
    fsetxattr 190 7, removexattr 197 14, lremovexattr 198 15, fremovexattr 199 16
"""

# Other programs: starting them, and signals to them.
STARTING = """
    fork 57 -, vfork 58 -, execve 59 221, execveat 322 281, tkill 200 130, rt_sigqueueinfo 129 138,
    rt_tgsigqueueinfo 297 240, pidfd_send_signal 424 424
"""

# Every way to the network or to another process's socket begins here (socketpair connects only to itself).
CONNECTING = "socket 41 198"

# What a client of a server does with its socket (psycopg waits by epoll).
TALKING = """
    epoll_create1 291 20, epoll_ctl 233 21, epoll_wait 232 -, epoll_pwait 281 22,
    connect 42 203, sendto 44 206, recvfrom 45 207, sendmsg 46 211, recvmsg 47 212, shutdown 48 210, getsockname 51 204,
    getpeername 52 205, setsockopt 54 208, getsockopt 55 209
"""

# Other processes' memory and descriptors, ways around the filter (io_uring), other namespaces, the kernel's own keys,
# faults, events and programs; and leaving the process group, which the server kills when a job takes too long.
NEVER = """
    ptrace 101 117, process_vm_readv 310 270, process_vm_writev 311 271, process_madvise 440 440, pidfd_getfd 438 438,
    kcmp 312 272, io_uring_setup 425 425, io_uring_enter 426 426, io_uring_register 427 427, unshare 272 97,
    setns 308 268, add_key 248 217, request_key 249 218, keyctl 250 219, userfaultfd 323 282, perf_event_open 298 241,
    bpf 321 280, setpgid 109 154, setsid 112 157
"""

# Decided by their arguments, in seccomp.py; and seccomp itself.
BY_ARGUMENTS = """
    open 2 -, openat 257 56, clone 56 220, clone3 435 435, fcntl 72 25, kill 62 129, tgkill 234 131, prlimit64 302 261,
    prctl 157 167, seccomp 317 277
"""


def numbers(table: str, machine: str) -> dict[str, int]:
    """Name and number of the calls of `table` that `machine` has."""
    column = 1 + MACHINES.index(machine)
    entries = (entry.split() for entry in table.split(","))
    return {entry[0]: int(entry[column]) for entry in entries if entry[column] != "-"}
