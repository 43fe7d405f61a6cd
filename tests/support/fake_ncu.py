"""A stand-in for ncu on PATH: behaves as the real one was seen to, per the environment variable FAKE_NCU.

What it says is in tests/data/ncu/says.toml.
``ok`` leaves a recorded report and facts file, as a profiled child would, ``own`` those of a user's kernel.
"""

import json
import os
import shutil
import signal
import struct
import subprocess
import sys
import time
import tomllib
from dataclasses import dataclass
from pathlib import Path

RECORDINGS = Path(__file__).resolve().parents[2] / "recordings" / "h100" / "attention"
VERSION = """NVIDIA (R) Nsight Compute Command Line Profiler
Copyright (c) 2018-2025 NVIDIA Corporation
Version 2025.3.1.0 (build 36398880) (public-release)
"""
CONNECTED = "==PROF== Connected to process 619 (/usr/bin/python3.12)\n"
UNCONTROLLED = "==WARNING== Note: Running with unmodified GPU clocks.\n"


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
    origin: str = ""


SAYS = tomllib.loads((Path(__file__).parents[1] / "data" / "ncu" / "says.toml").read_text(encoding="utf-8"))
SCENARIOS = {name: Scenario(**failure) for name, failure in SAYS["failure"].items()}
# What follows an error of profiling, whichever it was.
GAVE_UP = "".join(SCENARIOS["busy"].prints.partition("==ERROR== Failed to profile")[1:])
# With these ncu warns and goes on: a note, no failure.
WARNED = {name: (warning["number"], warning["prints"], warning["said"]) for name, warning in SAYS["warning"].items()}
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
