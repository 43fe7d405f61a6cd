"""Run a case's command in a process of its own, with limits, and keep everything that it said and wrote.

The process is a fork of this one, which has loaded the package: a case takes as long as the command itself. Its
working folder is ``work``; beside it are the cache, the home and the temporary folder that it is given.
"""

from __future__ import annotations

import contextlib
import os
import resource
import select
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from bench.attacks.corpus import caches
from bench.attacks.corpus.case import Draft
from bench.attacks.corpus.hostile import MARKER
from tests.support.places import ROOT

LIMIT_S = 10.0
ADDRESSES = 9 << 30  # bytes of address space: NVIDIA's reader limits itself to 6 GiB and some
FILE_BYTES = 1 << 30
OUTPUT = b"mine, from an earlier run\n"  # what the files to be written hold before
SUMMARY = "summary.md"


@dataclass(frozen=True)
class Ran:
    """What a command left behind: exit code (negative: the signal), output, files, time and peak memory."""

    code: int
    stdout: bytes = field(repr=False)
    stderr: bytes = field(repr=False)
    written: Mapping[str, bytes] = field(repr=False)  # new or changed files in the working folder
    lost: tuple[str, ...]  # files that were there and are not, or not as they were, though no output
    left: tuple[str, ...]  # in the temporary folder
    marked: bool  # whether code of the case's ran
    hung: bool
    seconds: float
    peak_bytes: int


def attempt(draft: Draft, folder: Path, warm: Path, limit_s: float = LIMIT_S, real: bool = False) -> Ran:
    """Run the case below a new folder, with a copy of the warm cache; `real` starts a new interpreter."""
    before = _laid_out(draft, folder, warm)
    start = time.monotonic()
    child = os.fork()
    if not child:
        _become(draft, folder, real)
    status, usage, hung = _waited(child, limit_s)
    seconds = time.monotonic() - start
    after = dict(_files(folder / "work"))
    return Ran(
        os.waitstatus_to_exitcode(status),
        (folder / "stdout").read_bytes(),
        (folder / "stderr").read_bytes(),
        {name: data for name, data in after.items() if before.get(name) != data},
        tuple(name for name, data in before.items() if after.get(name) != data and name not in draft.outputs),
        tuple(sorted(path.name for path in (folder / "tmp").iterdir())),
        (folder / "ran").exists(),
        hung,
        seconds,
        usage.ru_maxrss * 1024,
    )


def _laid_out(draft: Draft, folder: Path, warm: Path) -> dict[str, bytes]:
    """Write the case's files; return those of the working folder."""
    work = folder / "work"
    for name in ("work", "home", "tmp"):
        (folder / name).mkdir(parents=True)
    for name, data in {**dict.fromkeys(draft.outputs, OUTPUT), **draft.files}.items():
        file = work / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
        if data.startswith(b"#!"):
            file.chmod(0o755)
    shutil.copytree(warm, folder / "cache", copy_function=shutil.copy2 if draft.cache else os.link)
    if draft.cache:
        caches.spoil(folder / "cache", draft.cache, draft.seed)
    return dict(_files(work))


def _files(folder: Path) -> Iterator[tuple[str, bytes]]:
    for parent, _, names in os.walk(folder):
        for name in names:
            file = Path(parent, name)
            with contextlib.suppress(OSError):
                if file.is_file():
                    yield str(file.relative_to(folder)), file.read_bytes()


def _waited(child: int, limit_s: float) -> tuple[int, resource.struct_rusage, bool]:
    """Wait for the process and end it after the limit; whatever it started ends with it."""
    watched = os.pidfd_open(child)
    try:
        ended, _, _ = select.select([watched], [], [], limit_s)
    finally:
        os.close(watched)
    if not ended:
        os.kill(child, signal.SIGTERM)
        time.sleep(0.3)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)
    _, status, usage = os.wait4(child, 0)
    return status, usage, not ended


def environment(folder: Path, draft: Draft) -> dict[str, str]:
    """Return the environment of a case."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(folder / "home"),
        "TMPDIR": str(folder / "tmp"),
        "XDG_CACHE_HOME": str(folder / "cache"),
        "PYTHONPATH": str(ROOT),
        "LANG": "C.UTF-8",
        "COLUMNS": "80",
        "GITHUB_STEP_SUMMARY": str(folder / "work" / SUMMARY),
        MARKER: str(folder / "ran"),
        **draft.environment,
    }


def _become(draft: Draft, folder: Path, real: bool) -> NoReturn:
    """Become the command, in the forked process."""
    code = 1
    try:
        os.setpgid(0, 0)
        for number, name in ((1, "stdout"), (2, "stderr")):
            opened = os.open(folder / name, os.O_WRONLY | os.O_CREAT, 0o600)
            os.dup2(opened, number)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        resource.setrlimit(resource.RLIMIT_AS, (ADDRESSES, ADDRESSES))
        largest = draft.largest_file or FILE_BYTES
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest, largest))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        os.chdir(folder / "work")
        own = environment(folder, draft)
        os.environ.clear()
        os.environ.update(own)
        if real:
            os.execv(sys.executable, [sys.executable, "-m", "ncu_swizzle", *draft.command])
        code = _command(draft)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(BaseException):
            sys.stdout.flush()
        os._exit(code)


def _command(draft: Draft) -> int:
    import tempfile

    tempfile.tempdir = None  # as in a new process: TMPDIR decides
    encoding = os.environ.get("PYTHONIOENCODING", "utf-8")
    sys.stdout = os.fdopen(1, "w", encoding=encoding, closefd=False)
    sys.stderr = os.fdopen(2, "w", encoding=encoding, buffering=1, closefd=False, errors="backslashreplace")
    sys.argv = ["ncu-swizzle", *draft.command]
    from ncu_swizzle.__main__ import main

    return main()
