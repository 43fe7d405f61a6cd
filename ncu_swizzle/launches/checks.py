"""From a manifest's JSON to a Manifest, and what no capture writes."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ncu_swizzle.launches.model import (
    DRY,
    GPU,
    CapturedBuffer,
    CapturedLaunch,
    CapturedParameter,
    CapturedProgram,
    CapturedVariable,
    Contents,
    Manifest,
)
from ncu_swizzle.profiles.model import MachineInfo

MOST_LAUNCHES = 100_000
MOST_BUFFERS = 4096  # of a launch, and as many variables
MOST_PARAMETER_BYTES = 1 << 16
LONGEST_NAME = 1 << 16

_SHA256 = re.compile(r"[0-9a-f]{64}")
_HEX = re.compile(r"([0-9a-f]{2})+")


def manifest(content: Mapping[str, Any]) -> Manifest:
    """Return the manifest; raise what a wrong shape raises. Types and values are checked afterwards."""
    if len(content["launches"]) > MOST_LAUNCHES:
        raise ValueError(f"it has more than {MOST_LAUNCHES:,} launches")
    program = content["program"]
    arguments = program["arguments"]
    return Manifest(
        **{
            **content,
            "machine": MachineInfo(**content["machine"]),
            "program": CapturedProgram(program["name"], None if arguments is None else tuple(arguments)),
            "launches": tuple(map(_launch, content["launches"])),
            "notes": tuple(content["notes"]),
        }
    )


def _launch(content: Mapping[str, Any]) -> CapturedLaunch:
    sizes = {name: tuple(content[name]) for name in ("grid", "block", "cluster")}
    lists: dict[str, Any] = {
        "parameters": tuple(CapturedParameter(**part) for part in content["parameters"]),
        "buffers": tuple(CapturedBuffer(**_with_contents(part)) for part in content["buffers"]),
        "variables": tuple(CapturedVariable(**_with_contents(part)) for part in content["variables"]),
    }
    return CapturedLaunch(**{**content, **sizes, **lists})


def _with_contents(part: Mapping[str, Any]) -> dict[str, Any]:
    return {**part, "contents": Contents(**part["contents"])}


def implausible(found: Manifest, most_cubin: int, most_image: int) -> str:
    """Return the first value that no capture writes; empty if there is none."""
    if found.origin not in (GPU, DRY):
        return f"its origin is {found.origin!r}"
    for kind, sizes, most in (("cubin", found.cubins, most_cubin), ("memory", found.memory, most_image)):
        for sha256, size in sizes.items():
            if not _SHA256.fullmatch(sha256) or not 0 < size <= most:
                return f"{kind} {sha256[:80]!r} of {size:,} bytes"
    return next((f"launch {launch.index}: {wrong}" for launch in found.launches if (wrong := _odd(launch, found))), "")


def _odd(launch: CapturedLaunch, found: Manifest) -> str:
    if launch.cubin not in found.cubins:
        return f"its cubin {launch.cubin[:80]!r} is not listed"
    if not 0 < len(launch.kernel) <= LONGEST_NAME or "\0" in launch.kernel:
        return "its kernel has no usable name"
    if len(launch.cluster) not in (0, 3):
        return f"its cluster has {len(launch.cluster)} sizes"
    if max(map(len, (launch.parameters, launch.buffers, launch.variables))) > MOST_BUFFERS:
        return f"it has more than {MOST_BUFFERS:,} parameters, buffers or variables"
    return _odd_parameters(launch.parameters) or _odd_contents(launch, found)


def _odd_parameters(parameters: Sequence[CapturedParameter]) -> str:
    end = 0
    for parameter in parameters:
        if not _HEX.fullmatch(parameter.value):
            return f"the parameter at {parameter.offset} is not in hex"
        if parameter.offset < end:
            return f"the parameter at {parameter.offset} overlaps another"
        end = parameter.offset + len(parameter.value) // 2
    return f"its parameters have {end:,} bytes" if end > MOST_PARAMETER_BYTES else ""


def _odd_contents(launch: CapturedLaunch, found: Manifest) -> str:
    for part in launch.parts:
        sha256 = part.contents.sha256
        if sha256 and found.memory.get(sha256) != part.bytes:
            return f"contents {sha256[:80]!r} of {part.bytes:,} bytes are not listed"
    ordered = sorted(launch.buffers, key=lambda buffer: buffer.address)
    for first, second in itertools.pairwise(ordered):
        if first.address + first.bytes > second.address:
            return f"buffers overlap at {second.address:#x}"
    return "a buffer reaches beyond 64 bits" if ordered and ordered[-1].address + ordered[-1].bytes > 1 << 64 else ""
