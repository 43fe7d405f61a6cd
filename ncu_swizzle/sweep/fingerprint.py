"""What a point depends on: if any of it has changed, a saved point is stale and is measured again."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path

from ncu_swizzle import child, digest, paths
from ncu_swizzle.catalog.family import Family
from ncu_swizzle.engines.context import Request
from ncu_swizzle.errors import NcuSwizzleError
from ncu_swizzle.ncu import installed
from ncu_swizzle.ncu.system import System
from ncu_swizzle.sweep.plan import Point

TIMEOUT_S = 20.0
GPUS = ("nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader")
DRIVER = Path("/proc/driver/nvidia/version")
VISIBLE = "CUDA_VISIBLE_DEVICES"

Fingerprint = dict[str, str]


def shared_fingerprint(family: Family, engine: str, request: Request) -> Fingerprint:
    """Return what all points of a sweep depend on, wherever they run: engine, options, and sources."""
    return {
        "engine": engine,
        "options": json.dumps(asdict(request.options), sort_keys=True),
        "sources": digest.sha256_of_texts(*(part for item in sorted(family.source_texts().items()) for part in item)),
        "description": digest.sha256_of_texts(
            json.dumps(asdict(replace(family, folder=Path(), origin="")), sort_keys=True, default=str)
        ),
        "section": digest.sha256_of_texts(
            *(file.read_text(encoding="utf-8") for file in sorted(paths.rules().glob("*.section")))
        ),
        "ncu-swizzle": System().package_version("ncu-swizzle"),
    }


def tools_fingerprint(engine: str, request: Request) -> Fingerprint:
    """Return what points depend on that differs from machine to machine: the versions of its tools, and its GPUs.

    Raises EnvironmentLacking if ncu is to measure and is not found.
    """
    asked: dict[str, Callable[[], str]] = {}
    if engine == "ncu":
        ncu = str(installed.find(request.ncu))
        asked["ncu"] = lambda: _last_line(_output([ncu, "--version"]))
        asked["GPU and driver"] = _gpus
    if engine != "recorded":
        asked["nvcc"] = lambda: _last_line(_output(["nvcc", "--version"]))
    with ThreadPoolExecutor(max(len(asked), 1)) as pool:  # on a machine with GPUs each takes up to a second
        answers = {name: pool.submit(ask) for name, ask in asked.items()}
        return {name: answer.result() for name, answer in answers.items()}


def point_fingerprint(common: Fingerprint, family: Family, point: Point) -> Fingerprint:
    """Return what one point depends on; for recorded values that includes the recording."""
    recording = paths.recording(family.name, point.kernel) if common["engine"] == "recorded" else None
    more = {"recording": digest.sha256(recording.read_bytes())} if recording else {}
    return {**common, **more, "kernel": point.kernel, "problem": json.dumps(dict(point.problem))}


def differences(kept: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Return the names of the parts that differ."""
    return [name for name in dict.fromkeys((*kept, *now)) if kept.get(name) != now.get(name)]


def _gpus() -> str:
    """Return the GPUs with the driver version, or the driver version alone without nvidia-smi.

    A GPU that is named by its UUID counts by its name: which one of several like it does not matter.
    """
    try:
        driver = DRIVER.read_text(encoding="utf-8").partition("\n")[0]
    except OSError:
        driver = ""
    visible = os.environ.get(VISIBLE, "")
    if visible.startswith("GPU-") and (name := _output([*GPUS, f"--id={visible}"])):
        return name
    names = "; ".join(_output(GPUS).splitlines()) or driver
    return f"{names} {VISIBLE}={visible}" if VISIBLE in os.environ else names


def _output(command: Sequence[str]) -> str:
    """Return what a program prints; empty if it is missing or fails."""
    try:
        ended = child.run(command, TIMEOUT_S, Path.cwd(), paths.tool_environment())
    except NcuSwizzleError:
        return ""
    return ended.log.strip() if ended.status == 0 else ""


def _last_line(text: str) -> str:
    return text.rpartition("\n")[2]
