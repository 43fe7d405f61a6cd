"""A stand-in for ncu on PATH: behaves as the real one was seen to, per the environment variable FAKE_NCU.

The texts are ncu's own: those marked "H100" were printed by Nsight Compute 2025.3.1 on an H100, those marked "seen"
by others' ncu and quoted in public by whom it failed, those marked "manual" are from its documentation. What follows
an error is what the real one goes on to say: that the application returned an error code, that no kernel was profiled.
``ok`` leaves a recorded report and facts file, as a profiled child would, ``own`` those of a user's kernel.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import struct
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

RECORDINGS = Path(__file__).resolve().parents[2] / "recordings" / "h100" / "attention"
VERSION = """NVIDIA (R) Nsight Compute Command Line Profiler
Copyright (c) 2018-2025 NVIDIA Corporation
Version 2025.3.1.0 (build 36398880) (public-release)
"""


CONNECTED = "==PROF== Connected to process 619 (/usr/bin/python3.12)\n"
UNCONTROLLED = "==WARNING== Note: Running with unmodified GPU clocks.\n"
STARTED = '==PROF== Profiling "kernel2" - 0: 0%'
DRIVER = "==ERROR== An error was reported by the driver:\n"
LIBRARY = "==ERROR== An error was reported by the counter measurement library:\n"
GAVE_UP = (
    '==ERROR== Failed to profile "kernel2" in process 619\n'
    "==PROF== Trying to shutdown target application\n"
    "==ERROR== The application returned an error code (9).\n"
    "==ERROR== An error occurred while trying to profile.\n"
    "==WARNING== No kernels were profiled.\n"
)
UNREADABLE = (
    "==WARNING== Unable to access the following 3 metrics: ctc__rx_bytes_data_user.sum, "
    "ctc__rx_bytes_data_user.sum.per_second, ctc__tx_bytes_data_user.sum.\n"
)
SLOW = (
    "==WARNING== Backing up device memory in system memory. Kernel replay might be slow. Consider using "
    '"--replay-mode application" to avoid memory save-and-restore.\n'
)
HOMELESS = (
    '==WARNING== Could not deploy stock section files to "/nowhere/Documents/NVIDIA Nsight Compute/2025.3.1/Sections".'
    "\nSet the HOME environment variable to a writable directory.\n"
)


@dataclass(frozen=True)
class Scenario:
    """One way to fail: what ncu prints, how it ends, and what ncu-swizzle makes of it.

    `number` is that of docs/failures.md. `ending` is exit, abort, kill or hang; `report` is none, half, empty or whole.
    """

    number: int
    prints: str
    status: int
    exit_code: int
    said: str
    hint: str = ""
    stream: str = "stdout"
    report: str = "none"
    ending: str = "exit"


SCENARIOS = {
    # seen
    "permission": Scenario(
        1,
        CONNECTED + "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance "
        "Counters on the target device 0. For instructions on enabling permissions and to get more information see "
        "https://developer.nvidia.com/ERR_NVGPUCTRPERM\n==PROF== Disconnected from process 619\n"
        "==WARNING== No kernels were profiled.\n",
        1,
        3,
        "only privileged users",
        "add --engine emulated: exact counts without counters",
    ),
    # seen
    "busy": Scenario(
        2,
        CONNECTED + STARTED + "\n" + DRIVER + "==ERROR== Profiling failed because a driver resource was unavailable. "
        "Ensure that no other tool (like DCGM) is concurrently collecting profiling data. See "
        "https://docs.nvidia.com/nsight-compute/ProfilingGuide/index.html#faq for more details.\n" + GAVE_UP,
        9,
        3,
        "another profiler",
        "dcgmi profile --pause",
    ),
    # seen
    "lock": Scenario(
        3,
        "Failed to open/create lock file /tmp/nsight-compute-lock\nInterprocessLockFailed\n"
        "==ERROR== The application returned an error code (9).\n",
        9,
        3,
        "lock file belongs to another user",
        "TMPDIR",
        stream="stderr",
    ),
    # seen
    "driver": Scenario(
        4,
        DRIVER + "==ERROR== Cuda driver is not compatible with Nsight Compute.\n"
        "==WARNING== Failed to load Nsight Compute CUDA modules.\n"
        + CONNECTED
        + "==ERROR== The application returned an error code (11).\n",
        11,
        3,
        "does not support the installed driver",
        "--ncu PATH",
    ),
    # seen
    "library": Scenario(
        5,
        CONNECTED + STARTED + "\n" + LIBRARY + "==ERROR== Failed to initialize the profiler: LibraryNotLoaded. Check "
        "that a compatible driver library is loaded.\n" + GAVE_UP,
        9,
        3,
        "profiling libraries",
        "use an ncu that matches the driver",
    ),
    # seen
    "stub": Scenario(
        5,
        "==ERROR== Nsight Compute failed to connect to the CUDA driver (stub libcuda.so[.1] on path?).\n"
        "==ERROR== The application returned an error code (1).\n==WARNING== No kernels were profiled.\n"
        "==WARNING== Profiling kernels launched by child processes requires the --target-processes all option.\n",
        1,
        3,
        "profiling libraries",
        "LD_LIBRARY_PATH",
    ),
    # H100
    "nothing": Scenario(
        6,
        UNCONTROLLED + CONNECTED + "==PROF== Disconnected from process 574\n"
        "==WARNING== No kernels were profiled.\nAvailable Kernels:\n1. kernel2\n",
        0,
        4,
        "saw no kernel",
        "--nvtx-include",
    ),
    # seen
    "metric": Scenario(
        7,
        CONNECTED + "==ERROR== Failed to find metric regex:^nosuch(\\.(sum|min|max|avg|pct|ratio|max_rate))?$\n",
        1,
        3,
        "lacks a requested metric",
        "ncu --query-metrics",
    ),
    # seen
    "metrics": Scenario(
        7,
        CONNECTED + "==ERROR== Failed to access the following 8 metrics: nvlrx__bytes.sum, nvltx__bytes.sum\n"
        + GAVE_UP,
        9,
        3,
        "lacks a requested metric",
        "ncu --query-metrics",
    ),
    # H100
    "section": Scenario(
        8,
        "==ERROR== Option '--section Nope' did not match any section.\n"
        "==ERROR== Use --list-sections to see the list of available sections.\n",
        1,
        3,
        "did not find the section",
        "--list-sections",
    ),
    # seen
    "prepare": Scenario(
        9,
        CONNECTED + "==ERROR== Failed to prepare kernel for profiling\n" + LIBRARY
        + "==ERROR== Unknown Error on device 0.\n" + GAVE_UP,
        9,
        4,
        "could not profile the kernel",
        "compute-sanitizer",
    ),
    # seen
    "memory": Scenario(
        10,
        CONNECTED + SLOW + STARTED + "\n==ERROR== Failed to save memory for replay.\n" + GAVE_UP,
        9,
        4,
        "out of memory",
        "--replay-mode application",
    ),
    # seen
    "allocation": Scenario(
        10,
        CONNECTED + SLOW + STARTED + "\n==ERROR== Unhandled C++ exception: bad allocation\n" + GAVE_UP,
        9,
        4,
        "out of memory",
        "--replay-mode application",
        report="empty",
    ),
    # seen
    "mig": Scenario(
        11,
        CONNECTED + STARTED + "\n" + DRIVER + "==ERROR== Cannot lock GPU clock frequencies on MIG! Try locking the "
        "clocks externally (e.g. using 'nvidia-smi --lock-gpu-clocks=tdp,tdp') or profile without fixed frequencies "
        "(see '--clock-control').\n" + GAVE_UP,
        9,
        3,
        "MIG",
        "--clock-control none",
    ),
    # H100
    "exit7": Scenario(
        12,
        CONNECTED + "Segment 3 is empty\n==PROF== Disconnected from process 619\n"
        "==ERROR== The application returned an error code (7).\n==WARNING== No kernels were profiled.\n",
        7,
        4,
        "exited with code 7",
        "without ncu first",
    ),
    # manual
    "gone": Scenario(
        13,
        "==ERROR== Failed to connect. The target process may have exited.\n",
        1,
        4,
        "ended before ncu saw a kernel launch",
        "--target-processes all",
    ),
    # seen
    "no-cuda": Scenario(
        13,
        "==PROF== Target process 3323 terminated before first instrumented API call.\n"
        "==WARNING== No kernels were profiled.\n",
        1,
        4,
        "ended before ncu saw a kernel launch",
        "--target-processes all",
        stream="stderr",
    ),
    # manual
    "died": Scenario(
        14,
        CONNECTED + STARTED + "\n==ERROR== Connection error detected communicating with target application.\n"
        "==ERROR== The application returned an error code (9).\n",
        9,
        4,
        "died while ncu was profiling it",
        "dmesg",
        report="half",
    ),
    # manual
    "gpu": Scenario(15, "==ERROR== Unsupported GPU\n", 1, 3, "does not support the GPU", "ncu --list-chips"),
    # seen
    "device": Scenario(
        15,
        CONNECTED + "==ERROR== Profiling is not supported on device 0. To find out supported GPUs refer --list-chips "
        "option.\n==PROF== Disconnected from process 619\n==WARNING== No kernels were profiled.\n",
        0,
        3,
        "does not support the GPU",
        "ncu --list-chips",
    ),
    # seen
    "home": Scenario(16, HOMELESS, 1, 3, "home folder", "export HOME"),
    "hang": Scenario(
        17, UNCONTROLLED + CONNECTED + STARTED, 0, 4, "was still running after 2 s", "--timeout SECONDS", report="half",
        ending="hang",
    ),
    # H100
    "unwritable": Scenario(
        19,
        "==ERROR== Unable to write to file bad.ncu-rep. Please verify this file is not locked, and writable.\n",
        1,
        3,
        "could not write its report",
        "free disk space",
    ),
    # H100
    # H100
    "launch": Scenario(
        9,
        CONNECTED + '==PROF== Profiling "k(int *)" - 0: 0%....50%....100% - 1 pass\n\n'
        "==ERROR== LaunchFailed\n==PROF== Trying to shutdown target application\n"
        "==ERROR== The application returned an error code (9).\n",
        9,
        4,
        "could not profile the kernel",
        "compute-sanitizer",
    ),
    # H100
    "temporary": Scenario(
        21,
        "==ERROR== Failed to access the temporary directory.\n"
        "Ensure that /tmp is writable or set the TMPDIR environment variable to another directory.\n"
        "==ERROR== Launching the target application failed.\n",
        1,
        3,
        "cannot write to the temporary folder",
        "TMPDIR",
    ),
    # H100
    "no-program": Scenario(
        22,
        "==ERROR== './nosuchprogram' does not exist or is not an executable. Please make sure to specify the absolute "
        "path to './nosuchprogram' if the executable is not in the local directory.\n",
        1,
        2,
        "./nosuchprogram does not exist or is not executable",
        "permissions",
    ),
    "option": Scenario(
        20,
        "==ERROR== unrecognised option '--bogus-option'. Use --help for further details.\n",
        1,
        2,
        "rejected an option",
        "ncu --help",
    ),
    # H100
    "twice": Scenario(
        20,
        "==ERROR== option '--clock-control' cannot be specified more than once. Use --help for further details.\n",
        1,
        2,
        "rejected an option",
        "ncu --help",
    ),
    "silent": Scenario(23, "", 3, 4, "exited with code 3 and wrote no report", "--ncu PATH"),
    "half": Scenario(
        23, UNCONTROLLED + CONNECTED + STARTED, 0, 4, "was killed by signal 6", "--ncu PATH", report="half",
        ending="abort",
    ),
    "killed": Scenario(
        23, UNCONTROLLED + CONNECTED, 0, 4, "was killed by signal 9", "--ncu PATH", report="half", ending="kill"
    ),
    "half-and-well": Scenario(
        23, CONNECTED, 0, 4, "left a damaged report: it ends at byte", "profile again", report="half"
    ),
    "empty-and-well": Scenario(
        23, CONNECTED, 0, 4, "left a damaged report", "profile again", report="empty"
    ),
    "kernelless": Scenario(6, CONNECTED, 0, 4, "saw no kernel", "--nvtx-include", report="kernelless"),
}  # fmt: skip


# With these ncu warns and goes on: a note, no failure. The number is that of docs/failures.md.
WARNED = {
    "unreadable": (7, UNREADABLE, "ncu could not read 3 metrics: ctc__rx_bytes_data_user.sum"),
    "slow": (10, SLOW, "--replay-mode application needs no copy"),
    "homeless": (16, HOMELESS, "ncu could not write to the home folder"),
}
PATCHED = {"nan": float("nan"), "absurd": 250.0, "negative": -3.0}  # a share of a peak in the report: failure 18


def install(file: Path, *before: str) -> Path:
    """Put a script at the path that behaves as ncu does here; `before` are lines of shell that it begins with."""
    file.parent.mkdir(exist_ok=True)
    file.write_text("\n".join(["#!/bin/sh", *before, f'exec {sys.executable} {__file__} "$@"\n']), encoding="utf-8")
    file.chmod(0o755)
    return file


def main() -> int:
    if sys.argv[1:] == ["--version"]:
        print(VERSION, end="")
        return 0
    name = os.environ["FAKE_NCU"]
    if name == "busy-twice":
        name = _busy_twice()
    if name in SCENARIOS:
        return fail(SCENARIOS[name])
    if name == "really":  # run the child, as ncu would, on a machine where it cannot get far
        print(UNCONTROLLED + CONNECTED, end="", flush=True)
        status = subprocess.run(_program(), check=False).returncode
        print(f"==ERROR== The application returned an error code ({status}).", flush=True)
        return status
    return succeed(name)


def fail(scenario: Scenario) -> int:
    """Do what the scenario says; return the exit code."""
    stream = sys.stdout if scenario.stream == "stdout" else sys.stderr
    print(scenario.prints, end="", flush=True, file=stream)
    whole = (RECORDINGS / "kernel2.ncu-rep").read_bytes()
    first = 8 + int.from_bytes(whole[4:8], "little")
    content = {
        "half": whole[:1000],
        "empty": b"",
        "kernelless": whole[: first + 4 + int.from_bytes(whole[first : first + 4], "little")],
    }
    if scenario.report != "none":
        _export().write_bytes(content[scenario.report])
    if scenario.ending == "abort":
        os.abort()
    if scenario.ending == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if scenario.ending == "hang":
        _hang()
    return scenario.status


def _hang() -> None:
    """Wait as the real one waits for a kernel that never ends, with a program below it that has one of its own."""
    tree = subprocess.Popen(["sh", "-c", "sleep 61 & sleep 62 & wait"])
    Path(os.environ.get("FAKE_NCU_TREE", os.devnull)).write_text(f"{os.getpid()} {tree.pid}", encoding="utf-8")
    time.sleep(60)


def succeed(name: str) -> int:
    """Leave the recorded report and facts of the kernel that was to be profiled."""
    print(UNCONTROLLED + CONNECTED, end="", flush=True)
    export, program = _export(), _program()
    kernel = program[-1]
    if name == "own":
        return _own(program, export)
    if name == "program":
        return _profile_program(program, export)
    print(WARNED[name][1] if name in WARNED else "", end="", flush=True)
    print(f'==PROF== Profiling "{kernel}" - 0: ', end="", flush=True)
    for mark in ("0%", "....", "50%", "....", "100% - 6 passes\n"):
        print(mark, end="", flush=True)
    shutil.copy(RECORDINGS / f"{kernel}.ncu-rep", export)
    if name in PATCHED:
        export.write_bytes(patch(export.read_bytes(), PATCHED[name]))
    facts = Path(program[program.index("--facts") + 1])
    known = json.loads((RECORDINGS / f"{kernel}.facts.json").read_text(encoding="utf-8"))
    del known["engine"]
    facts.write_text(json.dumps(known), encoding="utf-8")
    print(f"==PROF== Report: {export}")
    return 0


def patch(report: bytes, value: float) -> bytes:
    """Return the report with another number in place of the one that FAKE_NCU_SHARE names."""
    known = struct.pack("<d", float(os.environ["FAKE_NCU_SHARE"]))
    assert known in report
    return report.replace(known, struct.pack("<d", value))


def _busy_twice() -> str:
    """Return what the third try finds: the first two find the counters taken."""
    tries = Path(os.environ["FAKE_NCU_TRIES"])
    with tries.open("a", encoding="utf-8") as file:
        file.write("x")
    return "busy" if len(tries.read_text(encoding="utf-8")) < 3 else "ok"


def _own(program: list[str], export: Path) -> int:
    """Stand in for a user's kernel: a recorded report, beside the facts that the child would have written."""
    from ncu_swizzle.kernels import __main__
    from ncu_swizzle.kernels.family import read

    family = read(Path(program[program.index("--description") + 1]))
    (kernel,) = (one for one in family.kernels if one.name == program[-1])
    recorded = "kernel2" if kernel.baseline else "kernel1"
    shutil.copy(RECORDINGS / f"{recorded}.ncu-rep", export)
    known = json.loads((RECORDINGS / f"{recorded}.facts.json").read_text(encoding="utf-8"))
    errors = {kernel.name: {"y": 0.0}} if family.reference else {}
    facts = {**__main__.what_runs(family, kernel, family.problem()), "machine": known["machine"], "errors": errors}
    Path(program[program.index("--facts") + 1]).write_text(json.dumps(facts), encoding="utf-8")
    return 0


def _profile_program(program: list[str], export: Path) -> int:
    """Run the program, then leave the report that the test has made."""
    status = subprocess.run(program, check=False).returncode
    if status:
        print(f"==ERROR== The application returned an error code ({status}).", flush=True)
        return status
    print('==PROF== Profiling "rows" - 0: 0%....50%....100% - 6 passes\n==PROF== Disconnected from process 619')
    shutil.copy(os.environ["FAKE_NCU_REPORT"], export)
    return 0


def _export() -> Path:
    return Path(sys.argv[sys.argv.index("--export") + 1])


def _program() -> list[str]:
    return sys.argv[sys.argv.index("--") + 1 :]


if __name__ == "__main__":
    sys.exit(main())
