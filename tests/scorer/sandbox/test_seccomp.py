"""The sandbox on kernels and architectures other than this one."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rl.scorer.sandbox import landlock, seccomp, system_calls
from tests.scorer.conftest import confined


@confined
@pytest.mark.parametrize("known", range(1, landlock.version() + 1))
def test_every_version_of_landlock_s_interface_confines(known: int, tmp_path: Path) -> None:
    """As far as this kernel can act as an older one: no right is requested that the older one lacks."""
    (tmp_path / "inside").mkdir()
    (tmp_path / "inside" / "file").write_text("x")
    code = f"""if True:
        import os
        from rl.scorer.sandbox import confine, landlock
        landlock.version = lambda: {known}
        confine.confine(["landlock"], [{str(tmp_path / "inside")!r}], [])
        open({str(tmp_path / "inside" / "file")!r}).read(), open(os.devnull, "w")
        for action in (lambda: open("/etc/passwd"), lambda: open({str(tmp_path / "inside" / "new")!r}, "w")):
            try:
                action()
            except PermissionError:
                continue
            raise SystemExit("it is not confined")
    """
    subprocess.run([sys.executable, "-c", code], check=True)


def verdict(program: list, architecture: int, number: int, *arguments: int) -> int:
    """The filter's result for a call, by the definition of classic BPF."""
    words = [number, architecture, 0, 0]
    for argument in (*arguments, *(0,) * (6 - len(arguments))):
        words += [argument & 0xFFFF_FFFF, argument >> 32]
    accumulator = place = 0
    while True:
        code, if_true, if_false, value = program[place]
        place += 1
        if code == 0x20:
            accumulator = words[value // 4]
        elif code == 0x54:
            accumulator &= value
        elif code == 0x06:
            return value
        else:
            holds = {0x15: accumulator == value, 0x25: accumulator > value, 0x35: accumulator >= value}[code]
            place += if_true if holds else if_false


ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}


@pytest.mark.parametrize("machine", ARCHITECTURES)
def test_the_filters_decide_by_architecture_number_and_arguments(machine: str) -> None:
    tables = ("COMPUTING", "MODIFYING", "STARTING", "CONNECTING", "TALKING", "NEVER", "BY_ARGUMENTS")
    groups = {name: system_calls.numbers(getattr(system_calls, name), machine) for name in tables}
    number = {name: value for group in groups.values() for name, value in group.items()}
    assert len(set(number.values())) == len(number), "two names have one number"

    def verdicts(program: list) -> Callable[..., int]:
        assert len(program) <= 4096 and all(jump < 256 for _, *jumps, _ in program for jump in jumps)
        assert verdict(program, 0x40000003, number["read"]) == seccomp.KILL  # i386
        if machine == "x86_64":
            assert verdict(program, ARCHITECTURES[machine], number["read"] | 0x40000000) == seccomp.KILL  # x32
        assert verdict(program, ARCHITECTURES[machine], 451) == seccomp.NO_SUCH_CALL
        return lambda name, *arguments: verdict(program, ARCHITECTURES[machine], number[name], *arguments)

    thread, parent = 0x10000 | 0x100, 0x100
    of = verdicts(seccomp.computing_only(machine, process=77))
    assert all(of(name) == seccomp.ALLOW for name in groups["COMPUTING"])
    refused = ("MODIFYING", "STARTING", "CONNECTING", "NEVER")
    assert {of(name) for table in refused for name in groups[table]} == {seccomp.NO_SUCH_CALL}
    assert of("openat", 0, 0, os.O_RDONLY | os.O_CLOEXEC) == seccomp.ALLOW
    for flags in (os.O_WRONLY, os.O_RDWR, os.O_CREAT, os.O_TRUNC):
        assert of("openat", 0, 0, flags) == seccomp.NO_ACCESS
    assert (of("clone", thread), of("clone", parent), of("clone3")) == (seccomp.ALLOW, *[seccomp.NO_SUCH_CALL] * 2)
    assert (of("fcntl", 3, 6), of("fcntl", 3, 8), of("fcntl", 3, 10)) == (seccomp.ALLOW, *[seccomp.NO_SUCH_CALL] * 2)
    assert (of("kill", 77), of("kill", 78), of("tgkill", 1)) == (seccomp.ALLOW, *[seccomp.NOT_PERMITTED] * 2)
    assert of("prlimit64", 0, 7, 0) == of("prlimit64", 77, 7, 0) == seccomp.ALLOW
    assert {of("prlimit64", 78, 7, 0), of("prlimit64", 0, 7, 1 << 32), of("prlimit64", 0, 7, 8)} == {
        seccomp.NOT_PERMITTED
    }

    none = verdicts(seccomp.all_but(machine, 77, writes=False, network=False, programs=False))
    assert {none(name) for table in refused for name in groups[table]} == {seccomp.NOT_PERMITTED}
    assert all(none(name) == seccomp.ALLOW for name in groups["COMPUTING"])
    assert none("clone", thread) == none("fcntl", 3, 6) == seccomp.ALLOW
    assert {none("clone", parent), none("fcntl", 3, 8), none("kill", 78)} == {seccomp.NOT_PERMITTED}
    assert none("clone3") == seccomp.NO_SUCH_CALL
    # A socket for its server: local, or TCP.
    for port, families in ((0, {1}), (5432, {2, 10})):
        server = verdicts(seccomp.computing_only(machine, 77, server_port=port))
        allowed = {family for family in range(40) if server("socket", family, 1 | 0x80000) == seccomp.ALLOW}
        assert allowed == families
        assert {server("socket", family, kind) for family in families for kind in (2, 3)} == {seccomp.NOT_PERMITTED}
        assert {server(name) for name in groups["TALKING"]} == {seccomp.ALLOW}
    everything = verdicts(seccomp.all_but(machine, 77, writes=True, network=True, programs=True))
    assert all(everything(name) == seccomp.ALLOW for table in refused[:3] for name in groups[table])
    assert {everything(name) for name in groups["NEVER"]} == {seccomp.NOT_PERMITTED}
    assert everything("clone", parent) == everything("kill", 78) == seccomp.ALLOW
    assert everything("clone3") == seccomp.NO_SUCH_CALL
    user_namespace, set_parent_death_signal, set_name = 0x10000000, 1, 15
    refusals = everything("clone", user_namespace | parent), everything("prlimit64", 78)
    for of_task in (none, everything):
        refusals += of_task("setpgid"), of_task("setsid")
        assert of_task("prctl", set_name) == seccomp.ALLOW
    assert {*refusals, none("prctl", set_parent_death_signal)} == {seccomp.NOT_PERMITTED}
