"""Drafts of JSON of ours: saved profiles, baselines and manifests, damaged, or hostile under digests that fit."""

from __future__ import annotations

import json
from random import Random
from typing import Any

from bench.attacks.corpus import bytewise, commands, hostile, intact, originals, trees
from bench.attacks.corpus.case import WHOLE, Draft


def saved_profile(chance: Random) -> Draft:
    """Damage a saved profile: unsealed, or sealed again."""
    source, other = chance.sample(originals.RECORDED, 2)
    data, damage, must_refuse = _json(
        intact.profile_content(source), intact.profile_content(other), trees.sealed_profile, chance
    )
    command, outputs = commands.showing("k.json", chance, WHOLE)
    return Draft(
        damage, source, {"k.json": data, WHOLE: intact.saved(originals.RECORDED[0])}, command, must_refuse, outputs
    )


def saved_baseline(chance: Random) -> Draft:
    source, other = chance.sample(originals.RECORDED, 2)
    content = originals.baseline_content(source)
    data, damage, _ = _json(content, originals.baseline_content(other), trees.sealed_baseline, chance)
    command, outputs = commands.holding_against("baseline.json", WHOLE, chance)
    must_refuse = not damage.endswith("sealed") and _entries_changed(data, content)
    return Draft(damage, source, {"baseline.json": data, WHOLE: intact.saved(source)}, command, must_refuse, outputs)


def run_manifest(chance: Random) -> Draft:
    source, other = chance.sample(originals.RECORDED, 2)
    data, damage, _ = _json(intact.manifest(source), intact.manifest(other), None, chance)
    command, outputs = commands.showing("run", chance)
    files = {
        "run/run.json": data,
        "run/k.json": intact.saved(source),
        "run/w.json": intact.saved(other),
        WHOLE: intact.saved(other),
    }
    return Draft(damage, source, files, command, False, outputs)


def _json(
    content: trees.Content, other: trees.Content, seal: trees.Seal | None, chance: Random
) -> tuple[bytes, str, bool]:
    """Return a damaged JSON file, the damage, and whether it must be refused."""
    damage = chance.choice((*[f"{name}, sealed" for name in TREE_DAMAGES] * 3, *bytewise.TEXT))
    if damage.endswith("sealed"):
        return trees.written(hostile_tree(content, damage, chance), seal), damage, False
    data = bytewise.TEXT[damage](trees.written(content), trees.written(other), chance)
    return data, damage, seal is not None and changed(data, content)


def full_disk(chance: Random) -> Draft:
    """Show intact profiles where no file may grow large."""
    source, other = chance.sample(originals.RECORDED, 2)
    command, outputs = commands.showing("k.json", chance, WHOLE)
    files = {"k.json": intact.saved(source), WHOLE: intact.saved(other)}
    largest = chance.choice((100, 3_000, 60_000, 400_000))
    return Draft(f"{largest} bytes", source, files, command, False, outputs, largest_file=largest)


# ------------------------------------------------------------------------------------------------ damage

TREE_DAMAGES = (
    "a hostile value",
    "a hostile value",
    "several hostile values",
    "hostile texts",
    "a hostile source",
    "a deep stack",
)


def hostile_tree(content: trees.Content, damage: str, chance: Random) -> trees.Content:
    name = damage.removesuffix(", sealed")
    if name == "hostile texts":
        changed: trees.Content = with_hostile_texts(content, chance.choice(hostile.TEXTS))
        return {**changed, **{key: content[key] for key in ("digest", "schema", "report") if key in content}}
    if name == "a hostile source" and content.get("sources"):
        return {**content, "sources": dict.fromkeys(content["sources"], chance.choice(hostile.LONG))}
    if name == "a deep stack" and "instructions" in content:
        frame = [next(iter(content["sources"]), "a.cu"), 1]
        depth, deep = chance.choice((1_000, 20_000)), chance.choice((1, 5))
        stacks = content["instructions"]["stacks"]
        deeper = [[*frame_list, *[frame] * depth] if i < deep else frame_list for i, frame_list in enumerate(stacks)]
        return {**content, "instructions": {**content["instructions"], "stacks": deeper}}
    for _ in range(chance.randrange(2, 6) if name == "several hostile values" else 1):
        changed = trees.with_hostile_value(content, chance)
        content = changed if isinstance(changed, dict) else content
    return content


def with_hostile_texts(content: Any, text: str) -> Any:
    """Return the data with every text ending in a hostile one."""
    if isinstance(content, dict):
        return {name: with_hostile_texts(value, text) for name, value in content.items()}
    if isinstance(content, list):
        return [with_hostile_texts(value, text) for value in content]
    return content + text if isinstance(content, str) else content


def changed(data: bytes, content: trees.Content) -> bool:
    """Say whether damaged JSON says something else, though it claims a digest; what is no JSON says nothing."""
    try:
        now = json.loads(data)
    except (ValueError, RecursionError):
        return True
    return bool(not isinstance(now, dict) or ("digest" in now and now != content))


def _entries_changed(data: bytes, content: trees.Content) -> bool:
    try:
        entries = json.loads(data)["kernels"]
        return any(entry not in content["kernels"] for entry in entries)
    except (ValueError, RecursionError, LookupError, TypeError):
        return True
