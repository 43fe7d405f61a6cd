"""A stand-in for ncu on PATH: behaves as the real one was seen to, per the environment variable FAKE_NCU.

The texts were taken from Nsight Compute 2025.3.1 on an H100, except those marked "manual", which are from its
documentation. ``ok`` leaves a recorded report and facts file, as a profiled child would.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

RECORDINGS = Path(__file__).resolve().parent.parent / "recordings" / "h100" / "attention"

CONNECTED = "==PROF== Connected to process 619 (/usr/bin/python3.12)\n"
UNCONTROLLED = "==WARNING== Note: Running with unmodified GPU clocks.\n"

# scenario: (what it prints, its exit code)
SAID = {
    "permission": (
        CONNECTED + "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance "
        "Counters on the target device 0.\n",  # manual
        1,
    ),
    "busy": (
        CONNECTED + "==ERROR== Profiling failed because a driver resource was unavailable.\n",  # manual
        1,
    ),
    "lock": ("==ERROR== Failed to open/create lock file /tmp/nsight-compute-lock.\n", 1),  # manual
    "driver": ("==ERROR== Cuda driver is not compatible with Nsight Compute\n", 1),  # manual
    "library": ("==ERROR== Failed to initialize the profiler: LibraryNotLoaded\n", 1),
    "nothing": (
        UNCONTROLLED + CONNECTED + "==PROF== Disconnected from process 574\n"
        "==WARNING== No kernels were profiled.\nAvailable Kernels:\n1. kernel2\n",
        0,
    ),
    "metric": ("==ERROR== Failed to find metric nosuch.sum\n", 1),  # manual
    "section": (
        "==ERROR== Option '--section Nope' did not match any section.\n"
        "==ERROR== Use --list-sections to see the list of available sections.\n",
        1,
    ),
    "prepare": (CONNECTED + "==ERROR== Failed to prepare kernel for profiling\n", 1),  # manual
    "memory": (
        "==WARNING== Backing up device memory in system memory.\n"  # manual
        "==ERROR== Failed to save memory for replay\n",
        1,
    ),
    "mig": ("==ERROR== Cannot lock GPU clock frequencies on MIG!\n", 1),  # manual
    "exit7": ("==ERROR== The application returned an error code (7).\n", 7),
    "gone": ("==ERROR== Failed to connect. The target process may have exited.\n", 1),  # manual
    "died": ("==ERROR== Connection error detected communicating with target application.\n", 1),  # manual
    "gpu": ("==ERROR== Unsupported GPU\n", 1),  # manual
    "option": ("==ERROR== unrecognised option '--bogus-option'. Use --help for further details.\n", 1),
    "twice": (
        "==ERROR== option '--clock-control' cannot be specified more than once. Use --help for further details.\n",
        1,
    ),
    "unwritable": (
        "==ERROR== Unable to write to file bad.ncu-rep. Please verify this file is not locked, and writable.\n",
        1,
    ),
    "silent": ("", 3),
}


def main() -> int:
    scenario = os.environ["FAKE_NCU"]
    if scenario in SAID:
        text, status = SAID[scenario]
        print(text, end="", flush=True)
        return status
    export, program = _export(), _program()
    print(UNCONTROLLED + CONNECTED, end="", flush=True)
    if scenario == "really":  # run the child, as ncu would, on a machine where it cannot get far
        status = subprocess.run(program, check=False).returncode
        print(f"==ERROR== The application returned an error code ({status}).", flush=True)
        return status
    if scenario == "program":  # run the program, then leave the report that the test has made
        return _profile_program(program, export)
    if scenario == "half":  # a report begun, then the end
        export.write_bytes((RECORDINGS / "kernel2.ncu-rep").read_bytes()[:1000])
        os.abort()
    if scenario == "hang":
        subprocess.Popen(["sleep", "60"])
        export.write_bytes(b"half")
        time.sleep(60)
    kernel = program[-1]
    print(f'==PROF== Profiling "{kernel}" - 0: ', end="", flush=True)
    for mark in ("0%", "....", "50%", "....", "100% - 6 passes\n"):
        print(mark, end="", flush=True)
    shutil.copy(RECORDINGS / f"{kernel}.ncu-rep", export)
    facts = Path(program[program.index("--facts") + 1])
    known = json.loads((RECORDINGS / f"{kernel}.facts.json").read_text(encoding="utf-8"))
    del known["engine"]
    facts.write_text(json.dumps(known), encoding="utf-8")
    print(f"==PROF== Report: {export}")
    return 0


def _profile_program(program: list[str], export: Path) -> int:
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
