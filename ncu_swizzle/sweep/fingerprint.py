"""What a point rests on: where any of it is another one now, a kept point is stale and is measured again."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from ncu_swizzle import child, paths
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


def shared(family: Family, engine: str, request: Request) -> Fingerprint:
    """Return what all points of a sweep rest on: engine, options, sources, and the versions of what measures.

    Where ncu measures, raises EnvironmentLacking where it is not found.
    """
    found = {
        "engine": engine,
        "options": json.dumps(asdict(request.options), sort_keys=True),
        "sources": _sha256(*(part for item in sorted(family.source_texts().items()) for part in item)),
        "description": _sha256(json.dumps(asdict(replace(family, folder=Path())), sort_keys=True, default=str)),
        "section": _sha256(*(file.read_text(encoding="utf-8") for file in sorted(paths.rules().glob("*.section")))),
        "ncu-swizzle": System().package_version("ncu-swizzle"),
    }
    if engine == "ncu":
        found["ncu"] = _last_line(_said([str(installed.find(request.ncu)), "--version"]))
        found["GPU and driver"] = _gpus()
    if engine != "recorded":
        found["nvcc"] = _last_line(_said(["nvcc", "--version"]))
    return found


def of_point(common: Fingerprint, family: Family, point: Point) -> Fingerprint:
    """Return what one point rests on; for recorded figures also which recording."""
    recording = paths.recording(family.name, point.kernel) if common["engine"] == "recorded" else None
    more = {"recording": hashlib.sha256(recording.read_bytes()).hexdigest()} if recording else {}
    return {**common, **more, "kernel": point.kernel, "problem": json.dumps(dict(point.problem))}


def differences(kept: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Return the names of what is not the same."""
    return [name for name in dict.fromkeys((*kept, *now)) if kept.get(name) != now.get(name)]


def _sha256(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()


def _gpus() -> str:
    """Return the GPUs with their driver's version, or that alone where nvidia-smi is not there."""
    try:
        driver = DRIVER.read_text(encoding="utf-8").partition("\n")[0]
    except OSError:
        driver = ""
    names = "; ".join(_said(GPUS).splitlines()) or driver
    return f"{names} {VISIBLE}={os.environ[VISIBLE]}" if VISIBLE in os.environ else names


def _said(command: Sequence[str]) -> str:
    """Return what a program says; empty where it is not there or fails."""
    try:
        outcome = child.run(command, TIMEOUT_S, Path.cwd())
    except NcuSwizzleError:
        return ""
    return outcome.log.strip() if outcome.status == 0 else ""


def _last_line(text: str) -> str:
    return text.rpartition("\n")[2]
