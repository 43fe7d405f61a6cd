"""Whole files of every kind, to be damaged: recordings, what is made of them, and kernels compiled now."""

import json
from functools import cache
from typing import Any

from bench.attacks.corpus import trees
from ncu_swizzle.base.files import read_toml
from ncu_swizzle.engines import reader
from ncu_swizzle.gate import baseline
from ncu_swizzle.reports import container
from ncu_swizzle.reports.model import Profile
from tests.support.own_kernel import EXAMPLE
from tests.support.places import PROGRAMS, RECORDINGS, table

RECORDED = ("tma/tma-128", "vectors/vectors-4-stride", "transpose/transpose-xor", "attention/kernel2")
FOREIGN = ("basic", "range", "graph", "several")
# ------------------------------------------------------------------------------------------------ reports and profiles


@cache
def report(source: str) -> bytes:
    """Return a report that somebody else recorded, or one of ours without its facts."""
    folder = PROGRAMS if source in FOREIGN else RECORDINGS
    return (folder / f"{source}.ncu-rep").read_bytes()


@cache
def profile(source: str) -> Profile:
    return reader.read(RECORDINGS / f"{source}.ncu-rep")[0]


@cache
def baseline_content(source: str) -> trees.Content:
    entries = tuple(baseline.entry_of([profile(each)]) for each in (source, RECORDED[0]))
    content: trees.Content = json.loads(baseline.Baseline(entries).to_json())
    return content


# ------------------------------------------------------------------------------------------------ TOML


@cache
def project() -> trees.Content:
    """Return the settings of examples/own-kernel, with everything that a project may say."""
    content: Any = read_toml(EXAMPLE / "ncu-swizzle.toml")
    tile = content["kernel"]["tile"]
    more = {"nvcc": ["--use_fast_math"], "include": ["."], "std": "c++17", "defines": {"TILE": 32}, "shared": "0"}
    small = {"n": {**tile["problem"]["n"], "default": 64}}
    return {"check": table("hostile/check.toml")["check"], "kernel": {"tile": {**tile, **more, "problem": small}}}


@cache
def embedded(source: str) -> bytes:
    """Return the cubin in one of our reports."""
    return container.container_of(report(source), source).results[0].cubin
