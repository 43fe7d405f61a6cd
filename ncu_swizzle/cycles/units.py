"""The cost of instructions on an H100, measured by bench/recording/latencies.py, in the form that sm.c reads.

Not measured there: S2R is assumed to be as slow as a load of a constant, and opcodes without an entry as slow
as MUFU if they set a scoreboard.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np

from ncu_swizzle.smem.opcodes import ROWS

KINDS = {
    name: number
    for number, name in enumerate(
        (
            "FIXED", "VARIABLE", "SHARED", "LOAD", "STORE", "COPY", "COMMIT", "GROUP_WAIT", "BARRIER", "ARRIVE",
            "COPY_ARRIVE", "WAIT", "BOX", "BOX_STORE", "PRODUCT", "PRODUCT_WAIT",
        )
    )
}  # fmt: skip
PIPES = {
    name: number for number, name in enumerate(("fma", "alu", "sfu", "fp64", "tensor", "memory", "uniform", "branch"))
}
FIELDS = ("kind", "stall", "sets", "frees", "waits", "pipe", "argument", "past_l1")
INSTRUCTION = np.dtype(
    [(name, np.int32) for name in FIELDS]
    + [(name, np.float64) for name in ("interval", "latency", "wavefronts", "bytes")]
)
PER_SUB_CORE = 4
LANES, LINE = 32, 128

MEASURED = json.loads(Path(__file__).with_name("h100.json").read_text(encoding="utf-8"))


def measured(name: str) -> float:
    """Return the median of a measurement."""
    return float(MEASURED["measured"][name])


def interval(name: str, share: float = 1.0) -> float:
    """Return the cycles of a sub-core's pipe per instruction, from its rate."""
    return round(2 * PER_SUB_CORE / measured(f"{name}, rate") * share) / 2


_ALU = interval("SHF")
_SLOW = interval("MUFU.EX2")
_RATES = {"fma": interval("FFMA"), "alu": _ALU, "sfu": _SLOW, "fp64": interval("DFMA"), "uniform": _ALU}
_SLOWER = {
    **dict.fromkeys(("IMAD", "VIADD"), interval("IMAD")),  # VIADD and LOP3 in turns are as fast as two pipes
    **dict.fromkeys(("HFMA2", "HADD2", "HMUL2"), interval("HFMA2")),
}
# A sub-core's pipe and its cycles; of products, they depend on the shape.
COSTS = {row.name: (row.pipe, _SLOWER.get(row.name, _RATES[row.pipe])) for row in ROWS if row.pipe in _RATES}
LATENCIES = {
    **dict.fromkeys(("MUFU", "FRND"), measured("MUFU.EX2")),
    **dict.fromkeys(("POPC", "FLO", "BREV"), measured("POPC")),
    "F2F": measured("F2F, both ways"),
    "F2I": 2 * measured("I2F, F2I") - measured("FFMA"),
    **dict.fromkeys(("LDC", "ULDC", "S2R", "S2UR"), measured("LDC")),
    "VOTE": measured("ISETP and VOTE") - measured("FFMA"),
    "REDUX": measured("REDUX") - measured("FFMA"),
    **dict.fromkeys(("DFMA", "DADD", "DMUL", "DSETP"), measured("DFMA")),
}
USUAL_LATENCY = measured("MUFU.EX2")
STORED = measured("STS and LDS") - measured("LDS.32")
SHARED = {
    "LDS": measured("LDS.32"), "LDSM": measured("LDSM.M88"), "ATOMS": measured("ATOMS.OR"), "SHFL": measured("SHFL"),
    "STS": STORED, "STSM": STORED,
}  # fmt: skip
ROUND_TRIP = measured("mbarrier: arrive and wait, 1 warps") / 2  # half of it each
PRODUCT = measured("HGMMA.64x64x16 alone, with its wait") - measured("HGMMA.64x64x16 interval")


def entry(opcode: str, sass: str, wavefronts: float, box: tuple[float, float]) -> np.ndarray:
    """Return an instruction's costs; `wavefronts` per execution, `box`: bytes and rows of a copy by TMA."""
    base, *modifiers = opcode.split(".")
    costs = np.zeros((), INSTRUCTION)
    costs["pipe"], costs["sets"], costs["frees"] = -1, -1, -1
    costs["latency"] = LATENCIES.get(base, USUAL_LATENCY)
    if base in COSTS:
        pipe, costs["interval"] = COSTS[base]
        costs["pipe"] = PIPES[pipe]
    kind = _kind(base, modifiers)
    costs["kind"] = KINDS[kind]
    if kind in ("SHARED", "LOAD", "STORE", "COPY"):
        costs["pipe"], costs["interval"] = PIPES["memory"], _ALU
        costs["latency"] = SHARED.get(base, 0.0)
        costs["argument"] = base == "SHFL"  # takes the pipe, but is not an access
        if kind in ("LOAD", "STORE"):
            wavefronts = LANES * width(modifiers) / LINE
        costs["wavefronts"] = max(1.0, wavefronts)
        costs["past_l1"] = base in ("ATOM", "ATOMG") or "BYPASS" in modifiers or "GPU" in modifiers
    elif kind == "GROUP_WAIT":
        pending = re.search(r"0x([0-9a-f]+)", sass.rpartition(",")[2])
        costs["argument"] = int(pending[1], 16) if pending else 0
    elif kind in ("ARRIVE", "COPY_ARRIVE", "WAIT"):
        costs["latency"] = ROUND_TRIP
    elif kind == "BOX":
        costs["bytes"], costs["wavefronts"] = box
    elif "MMA" in base:
        costs["pipe"], costs["interval"] = PIPES["tensor"], _products(opcode)
        costs["latency"] = PRODUCT
    return costs


_BY_KIND = {
    "SHARED": tuple(SHARED),
    "LOAD": ("LDG", "LD", "LDL", "ATOMG", "ATOM"),
    "STORE": ("STG", "ST", "STL", "RED"),
    "COPY": ("LDGSTS",),
    "COMMIT": ("LDGDEPBAR",),
    "GROUP_WAIT": ("DEPBAR",),
    "ARRIVE": ("BAR.ARV", "SYNCS.ARRIVE"),
    "BARRIER": ("BAR",),
    "COPY_ARRIVE": ("ARRIVES",),
    "WAIT": ("SYNCS.PHASECHK",),
    "BOX": ("UTMALDG", "UBLKCP.S"),
    "BOX_STORE": ("UTMASTG", "UBLKCP.G"),
    "PRODUCT": ("HGMMA",),
    "PRODUCT_WAIT": ("WARPGROUP.DEPBAR",),
}
OF_OPCODE = {opcode: kind for kind, opcodes in _BY_KIND.items() for opcode in opcodes}


def _kind(base: str, modifiers: list[str]) -> str:
    """Return the kind of an opcode; an entry with a modifier takes precedence."""
    names = (*(f"{base}.{word}" for word in modifiers), base)
    return next((OF_OPCODE[name] for name in names if name in OF_OPCODE), "FIXED")


def _products(opcode: str) -> float:
    """Return the cycles of a sub-core's tensor pipe for a matrix product of half precision."""
    if shape := re.search(r"64x(\d+)x16", opcode):
        return int(shape[1]) * measured("HGMMA.64x256x16 interval") / 256
    # Two warps on a sub-core reach more than eight do.
    gained = measured("HMMA.16816.F32, rate") / measured("HMMA.16816.F32, 8 warps, rate")
    return interval("HMMA.1688.F32" if "1688" in opcode and "TF32" not in opcode else "HMMA.16816.F32", gained)


def width(modifiers: list[str]) -> int:
    """Return the bytes per lane of an access."""
    sizes = {"128": 16, "64": 8, "U8": 1, "S8": 1, "U16": 2, "S16": 2}
    return next((sizes[part] for part in modifiers if part in sizes), 4)
