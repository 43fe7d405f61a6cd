"""ncu-swizzle.toml and pyproject.toml that want something run, read or written."""

from __future__ import annotations

from random import Random
from typing import Any

from bench.attacks.corpus import bytewise, commands, hostile, intact, originals, trees
from bench.attacks.corpus.case import WHOLE, Draft
from bench.attacks.corpus.hostile import EVIL
from bench.attacks.corpus.saved import with_hostile_texts

BASELINE = "ncu-swizzle-baseline.json"
OPTIONS_FILE = f"-ccbin ./{EVIL}\n".encode()
COMPILER = ("nvcc", "nvcc", "nvcc", "std", "defines", "include", "reference")


def with_command(tile: Any, chance: Random) -> Any:
    """Return the entry of a kernel, or of one of its variants, that has its compiler or its reference run something."""
    name = chance.choice(COMPILER)
    if chance.random() < 0.5:
        return {**tile, name: chance.choice(hostile.SETTINGS[name])}
    variants = tile["variant"]
    which = chance.choice(list(variants))
    return {**tile, "variant": {**variants, which: {**variants[which], name: chance.choice(hostile.SETTINGS[name])}}}


def own_settings(chance: Random) -> Draft:
    """Damage an ncu-swizzle.toml."""
    content = originals.project()
    if chance.random() < 0.25:
        tile = with_command(content["kernel"]["tile"], chance)
        data = trees.toml({**content, "kernel": {"tile": tile}})
        return _draft("ncu-swizzle.toml", data, "a command", chance, commands.compiling("ncu-swizzle.toml", chance))
    data, damage = _toml(content, chance)
    return _draft("ncu-swizzle.toml", data, damage, chance)


def pyproject(chance: Random) -> Draft:
    """Damage a pyproject.toml."""
    content = {"project": {"name": "mine", "version": "1"}, "tool": {"ncu-swizzle": originals.project()}}
    data, damage = _toml(content, chance)
    return _draft("pyproject.toml", data, damage, chance)


def _draft(name: str, data: bytes, damage: str, chance: Random, given: commands.Command | None = None) -> Draft:
    command, outputs = given or commands.planning(name, chance.choice(("tile-swizzled", "my.cu")), chance)
    files = {name: data, **intact.project_files(), "options.txt": OPTIONS_FILE, "victim.txt": b"mine\n"}
    files |= {WHOLE: intact.saved("tma/tma-128"), BASELINE: trees.written(originals.baseline_content("tma/tma-128"))}
    return Draft(damage, "own-kernel", files, command, False, outputs)


def _toml(content: trees.Content, chance: Random) -> tuple[bytes, str]:
    damage = chance.choice(
        ("what it wants", "what it wants", "what it wants", "a hostile value", "hostile texts", *bytewise.TEXT)
    )
    if damage == "what it wants":
        return trees.toml(trees.with_wanted(content, chance)), damage
    if damage == "a hostile value":
        changed = trees.with_hostile_value(content, chance)
        return trees.toml(changed if isinstance(changed, dict) else {"kernel": changed}), damage
    if damage == "hostile texts":
        return trees.toml(with_hostile_texts(content, chance.choice(hostile.TEXTS))), damage
    return bytewise.TEXT[damage](trees.toml(content), trees.toml(content), chance), damage
