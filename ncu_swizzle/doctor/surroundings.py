"""Where ncu runs: a container, the home folder, the temporary one, the disk."""

from __future__ import annotations

import os
from pathlib import Path

from ncu_swizzle.doctor.diagnosis import Check, bad, doubtful, good
from ncu_swizzle.ncu import installed
from ncu_swizzle.ncu.failures import FULL_BYTES, OWN_TMPDIR, WRITABLE_HOME
from ncu_swizzle.ncu.system import System

LITTLE_BYTES = 1 << 30
CGROUPS = ("docker", "kubepods", "containerd", "libpod", "lxc")


def container(system: System) -> Check:
    """Say whether we are in a container, which needs a capability for the counters where they are restricted."""
    groups = system.read("/proc/1/cgroup") or ""
    marks = [mark for mark in ("/.dockerenv", "/run/.containerenv") if system.exists(mark)]
    named = [name for name in CGROUPS if name in groups]
    if not marks and not named:
        return good("container", "none that can be seen")
    said = f"in a container ({(marks or named)[0]})"
    if system.privileged:
        return good("container", f"{said}, with CAP_SYS_ADMIN")
    return doubtful("container", f"{said} without CAP_SYS_ADMIN", "docker run --gpus all --cap-add=SYS_ADMIN …")


def home(system: System) -> Check:
    """Say whether ncu can keep its sections in the home folder."""
    folder = system.environment.get("HOME", "")
    if not folder:
        return doubtful("HOME", "not set: ncu wants to keep its sections there", WRITABLE_HOME)
    if not system.writable(folder):
        return doubtful("HOME", f"{folder} cannot be written to: ncu wants to keep its sections there", WRITABLE_HOME)
    return good("HOME", f"{folder} can be written to")


def temporary(system: System) -> Check:
    """Say whether ncu can take its lock."""
    folder = system.temporary
    if lock := installed.foreign_lock(system):
        owner = system.owner(lock) or "another user"
        return bad("TMPDIR", f"{lock} belongs to {owner}: ncu cannot take its lock", OWN_TMPDIR)
    if not system.writable(folder):
        return bad("TMPDIR", f"{folder} cannot be written to: ncu cannot take its lock", OWN_TMPDIR)
    return good("TMPDIR", f"{folder} can be written to, and no lock of another user is in it")


def disk(system: System) -> Check:
    """Say whether there is room for reports where they would go."""
    folder = Path(os.curdir).absolute()
    free = system.free_bytes(folder)
    if free is None:
        return doubtful("disk", f"the free space below {folder} is unknown", "df -h .")
    said = f"{free / 2**30:,.1f} GiB free below {folder}"
    if free < FULL_BYTES:
        return bad("disk", said, "free some space, or go to another folder")
    if free < LITTLE_BYTES:
        return doubtful("disk", said, "free some space: a report takes up to some 10 MB, a full set of metrics more")
    if not system.writable(folder):
        return doubtful("disk", f"{said}, but it cannot be written to", "name another place with -o")
    return good("disk", said)
