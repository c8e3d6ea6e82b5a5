"""Attacks that must fail in a confined worker, and work that it must do: Python code for workers and tasks."""

import subprocess
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

# Names in capitals: see Targets.code.
READING = {
    "read the users": "open('/etc/passwd').read()",
    "read another database": """
import sqlite3
sqlite3.connect('file:OUTSIDE?mode=ro', uri=True).execute('SELECT * FROM t')
""",
    "list a folder": "os.listdir('/')",
    "read the server's environment": "open(f'/proc/{os.getppid()}/environ').read()",
}
CHANGING = {
    "remove a file": "os.remove('TARGET')",
    "rename a file": "os.rename('TARGET', 'TARGET.other')",
    "truncate a file": "os.truncate('TARGET', 0)",
    "open a file for writing": "os.open('TARGET', os.O_WRONLY)",
    "create a file": "os.open('FOLDER/new', os.O_CREAT)",
    "make a folder": "os.mkdir('FOLDER/folder')",
    "link": "os.link('TARGET', 'FOLDER/link')",
    "make a pipe": "os.mkfifo('FOLDER/pipe')",
    "change a mode": "os.chmod('TARGET', 0)",
    "change the times": "os.utime('TARGET', (0, 0))",
}
NETWORK = {
    "connect": "import socket; socket.create_connection(('127.0.0.1', PORT)).close()",
    "listen": "import socket; socket.create_server(('127.0.0.1', 0)).close()",
    "send a datagram": "import socket; socket.socket(type=socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', PORT))",
    "connect to a local socket": "import socket; socket.socket(socket.AF_UNIX).connect('\\0SOCKET')",
}
PROGRAMS = {
    "run a program": "import subprocess; subprocess.run(['true'], check=True)",
    "fork": "child = os.fork() or os._exit(0); os.waitpid(child, 0)",
    "become a program": "os.execv('/bin/true', ['true'])",
}
OTHERS = {
    "kill": "os.kill(VICTIM, 9)",
    "kill by a descriptor": "import signal; signal.pidfd_send_signal(os.pidfd_open(VICTIM), 9)",
    # SIGKILL when a pipe becomes readable.
    "kill by input": """
import fcntl
reader, writer = os.pipe()
fcntl.fcntl(reader, 8, VICTIM), fcntl.fcntl(reader, 10, 9)
fcntl.fcntl(reader, fcntl.F_SETFL, os.O_ASYNC | fcntl.fcntl(reader, fcntl.F_GETFL))
os.write(writer, b'x')
""",
    # Detach, or nobody learns of its end.
    "trace": "call(library.ptrace(16, VICTIM, 0, 0)), os.waitpid(VICTIM, 0), library.ptrace(17, VICTIM, 0, 0)",
    "read another's memory": "open('/proc/VICTIM/mem', 'rb', 0)",
    "io_uring": "call(library.syscall(425, 1, bytes(200)))",
    "use keys": "call(library.syscall({'x86_64': 250, 'aarch64': 219}[os.uname().machine], 0, -3, 0))",
    "another namespace": "call(library.unshare(0x04000000))",
}
ATTACKS = READING | CHANGING | NETWORK | PROGRAMS | OTHERS
# Actions that need a capability, by its number.
PRIVILEGED = {
    (21, "mount"): "call(library.mount(b'none', b'FOLDER/empty', b'tmpfs', 0, None)), library.umount(b'FOLDER/empty')",
    (24, "lift its limits"): "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (-1, -1))",
}
CAPABILITIES = int(Path("/proc/self/status").read_text().split("CapEff:")[1].split()[0], 16)
ATTACKS |= {name: code for (number, name), code in PRIVILEGED.items() if CAPABILITIES >> number & 1}

# Workers run this before the attack.
BEGINNING = """
import ctypes, os
library = ctypes.CDLL(None, use_errno=True)
def call(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
"""

WORK = {
    "import late": "import decimal, sqlite3, xml.dom.minidom, zipfile, email.message, encodings.cp1252",
    "threads": """
import threading
done = []
threads = [threading.Thread(target=done.append, args=(i,)) for i in range(8)]
[thread.start() for thread in threads], [thread.join() for thread in threads]
assert sorted(done) == list(range(8))
""",
    "signals of its own": """
import signal
signal.signal(10, lambda *_: None), signal.raise_signal(10), os.kill(os.getpid(), 10)
""",
    "random": "import secrets, uuid; secrets.token_bytes(), os.urandom(8), uuid.uuid4()",
    "wait": "import select, time; time.sleep(0.01), select.select([], [], [], 0.01), select.poll().poll(1)",
    "limits": "import resource; resource.getrlimit(resource.RLIMIT_DATA), resource.getrusage(resource.RUSAGE_SELF)",
    "memory": "x = bytes(30_000_000); y = x + x; del x, y",
    "files of its folders": """
folder = os.path.dirname(os.__file__)
assert [open(os.path.join(folder, name)).read() for name in os.listdir(folder) if name.startswith('a') and '.' in name]
""",
    "print": "import sys; print('printed by a test', flush=True); print('so is this', file=sys.stderr)",
}


@dataclass
class Targets:
    """The targets of attacks."""

    OUTSIDE: Path
    FOLDER: Path
    PORT: int
    SOCKET: str
    victim: subprocess.Popen | None = None

    def code(self, attack: str) -> str:
        """The code of an attack on fresh targets."""
        self.FOLDER.mkdir(exist_ok=True)
        for path in self.FOLDER.iterdir():
            path.rmdir() if path.is_dir() else path.unlink()
        (self.FOLDER / "empty").mkdir()
        (self.FOLDER / "file.sqlite").write_text("content")
        if "VICTIM" in attack:
            self.end()
            self.victim = subprocess.Popen(["sleep", "600"])
            attack = attack.replace("VICTIM", str(self.victim.pid))
        for name in ("OUTSIDE", "FOLDER", "PORT", "SOCKET"):
            attack = attack.replace(name, str(getattr(self, name)))
        return BEGINNING + attack.replace("TARGET", str(self.FOLDER / "file.sqlite"))

    def survived(self) -> bool:
        """Whether the victim still runs after a moment."""
        with suppress(subprocess.TimeoutExpired):
            self.victim.wait(0.3)
        return self.victim.poll() is None

    def end(self) -> None:
        if self.victim is not None:
            self.victim.kill()
            self.victim.wait()
