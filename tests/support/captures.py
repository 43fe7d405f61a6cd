"""Launches files of the tests: recorded ones, and what can be done to one."""

import json
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ncu_swizzle.base import cache
from tests.support.places import DATA

RECORDED = DATA / "launches"
NAMES = ("alike", "counting", "driver", "graph", "shapes", "sorting")
MANIFEST = "manifest.json"

Change = Callable[[dict[str, Any]], None]


def recorded(name: str) -> Path:
    return RECORDED / f"{name}.launches"


def counts(name: str) -> list[dict[int, list[Any]]]:
    """Return what ncu counted of each recorded launch: SASS, executed, wavefronts and ideal, by offset."""
    launches = json.loads((RECORDED / f"{name}.counts.json").read_text(encoding="utf-8"))
    return [{int(offset): row for offset, row in launch.items()} for launch in launches]


def entries(file: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(file) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def pack(file: Path, content: Mapping[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(file, "w", method) as archive:
        for name, data in content.items():
            archive.writestr(name, data)
    return file


def sealed(manifest: dict[str, Any]) -> bytes:
    """Return a manifest's bytes, with a digest that holds."""
    bare = {key: value for key, value in manifest.items() if key not in ("schema", "digest")}
    whole = {"schema": manifest["schema"], **bare}
    return json.dumps({**whole, "digest": cache.sha256_of_json(whole)}).encode()


def changed(file: Path, into: Path, change: Change) -> Path:
    """Write a launches file whose manifest was changed and sealed again."""
    content = entries(file)
    manifest = json.loads(content[MANIFEST])
    del manifest["digest"]
    change(manifest)
    return pack(into, {**content, MANIFEST: sealed(manifest)})


def forget(manifest: dict[str, Any]) -> None:
    """Make a file of one that was captured without --memory."""
    for launch in manifest["launches"]:
        for part in (*launch["buffers"], *launch["variables"]):
            part["contents"] = {"sha256": "", "why": "captured without --memory"}
