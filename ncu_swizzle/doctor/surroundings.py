"""Checks of what ncu runs in: a container, the home and temporary folders, the disk."""

from __future__ import annotations

import os
from pathlib import Path

from ncu_swizzle.doctor.diagnosis import HealthCheck, bad, doubtful, good
from ncu_swizzle.ncu import installed
from ncu_swizzle.ncu.failures import FULL_BYTES, OWN_TMPDIR, WRITABLE_HOME
from ncu_swizzle.ncu.system import System

LITTLE_BYTES = 1 << 30
CGROUPS = ("docker", "kubepods", "containerd", "libpod", "lxc")


def container(system: System) -> HealthCheck:
    """Return whether this is a container: if the counters are restricted, it needs a capability to read them."""
    groups = system.read("/proc/1/cgroup") or ""
    marks = [mark for mark in ("/.dockerenv", "/run/.containerenv") if system.exists(mark)]
    runtimes = [name for name in CGROUPS if name in groups]
    if not marks and not runtimes:
        return good("container", "none detected")
    container = f"in a container ({(marks or runtimes)[0]})"
    if system.privileged:
        return good("container", f"{container}, with CAP_SYS_ADMIN")
    return doubtful("container", f"{container} without CAP_SYS_ADMIN", "docker run --gpus all --cap-add=SYS_ADMIN …")


def home(system: System) -> HealthCheck:
    """Return whether ncu can store its section files in the home folder."""
    folder = system.environment.get("HOME", "")
    if not folder:
        return doubtful("HOME", "not set: ncu stores its section files there", WRITABLE_HOME)
    if not system.writable(folder):
        return doubtful("HOME", f"{folder} is not writable: ncu stores its section files there", WRITABLE_HOME)
    return good("HOME", f"{folder} is writable")


def temporary(system: System) -> HealthCheck:
    """Return whether ncu can take its lock."""
    folder = system.temporary
    if lock := installed.foreign_lock(system):
        owner = system.owner(lock) or "another user"
        return bad("TMPDIR", f"{lock} belongs to {owner}: ncu cannot take its lock", OWN_TMPDIR)
    if not system.writable(folder):
        return bad("TMPDIR", f"{folder} is not writable: ncu cannot take its lock", OWN_TMPDIR)
    return good("TMPDIR", f"{folder} is writable, and holds no lock file of another user")


def disk(system: System) -> HealthCheck:
    """Return whether the current folder has room for reports."""
    folder = Path(os.curdir).absolute()
    free = system.free_bytes(folder)
    if free is None:
        return doubtful("disk", f"the free space of {folder} is unknown", "df -h .")
    room = f"{free / 2**30:,.1f} GiB free in {folder}"
    if free < FULL_BYTES:
        return bad("disk", room, "free some space, or change to another folder")
    if free < LITTLE_BYTES:
        return doubtful("disk", room, "free some space: a report takes up to about 10 MB, more with --set full")
    if not system.writable(folder):
        return doubtful("disk", f"{room}, but it is not writable", "name another folder with -o")
    return good("disk", room)
