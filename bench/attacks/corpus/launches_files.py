"""Drafts of launches files: damaged zips, hostile manifests under fitting digests, damaged cubins in good files."""

from __future__ import annotations

import functools
import io
import json
import zipfile
from collections.abc import Mapping
from random import Random
from typing import Any

from bench.attacks.corpus import bytewise, commands, executables, hostile, trees
from bench.attacks.corpus.case import Draft
from bench.attacks.corpus.saved import hostile_tree
from ncu_swizzle.base import cache
from ncu_swizzle.capture.launches import EPOCH
from tests.support import captures

SMALL = ("alike", "counting", "driver", "graph", "shapes")  # those whose launches are emulated in a moment
Entries = dict[str, bytes]


def launches_file(chance: Random) -> Draft:
    source, other = chance.sample(SMALL, 2)
    damage = chance.choice((*MANIFEST_DAMAGES * 3, *CUBIN_DAMAGES * 2, "a hostile entry", *bytewise.BINARY))
    content = _entries(source)
    if damage in MANIFEST_DAMAGES:
        content = {**content, captures.MANIFEST: _sealed(hostile_tree(_manifest(content), damage, chance))}
    elif damage in CUBIN_DAMAGES:
        content = _with_cubin(content, _entries(other), damage, chance)
    elif damage == "a hostile entry":
        content = {**content, _name(chance): b"x"}
    data = _packed(content)
    if damage in bytewise.BINARY:
        data = bytewise.BINARY[damage](data, _packed(_entries(other)), chance)
    command, outputs = commands.replaying("app.launches", chance)
    return Draft(damage, source, {"app.launches": data}, command, False, outputs)


def _name(chance: Random) -> str:
    """Return an entry's name, of as many bytes as a zip file's can have."""
    return hostile.text(chance).encode("utf-8", "replace")[:60_000].decode("utf-8", "ignore")


@functools.cache
def _entries(name: str) -> Entries:
    return captures.entries(captures.recorded(name))


def _manifest(content: Mapping[str, bytes]) -> dict[str, Any]:
    manifest: dict[str, Any] = json.loads(content[captures.MANIFEST])
    return manifest


def _sealed(manifest: trees.Content) -> bytes:
    return trees.written(manifest, trees.sealed_profile)


def _with_cubin(content: Entries, others: Entries, damage: str, chance: Random) -> Entries:
    """Return the entries with one cubin damaged; the manifest names its new digest."""
    name = chance.choice([entry for entry in content if entry.startswith("cubins/")])
    other = next(data for entry, data in others.items() if entry.startswith("cubins/"))
    data = executables.CUBIN_DAMAGES[damage.removeprefix(IN_A_CUBIN)](content[name], other, chance)
    old, new = name.removeprefix("cubins/").removesuffix(".cubin"), cache.sha256(data)
    manifest = json.loads(content[captures.MANIFEST].replace(old.encode(), new.encode()))
    manifest["cubins"] = {**manifest["cubins"], new: len(data)}
    rest = {entry: blob for entry, blob in content.items() if entry != name}
    return {**rest, captures.MANIFEST: _sealed(manifest), f"cubins/{new}.cubin": data}


def _packed(content: Entries) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in content.items():
            entry = zipfile.ZipInfo(name, EPOCH)  # the same case has the same bytes at any time
            archive.writestr(entry, data, zipfile.ZIP_DEFLATED)
    return file.getvalue()


IN_A_CUBIN = "in a cubin: "
MANIFEST_DAMAGES = ("a hostile value, sealed", "several hostile values, sealed", "hostile texts, sealed")
CUBIN_DAMAGES = tuple(IN_A_CUBIN + damage for damage in executables.CUBIN_DAMAGES)
