"""Drafts of reports: ours, whose facts hold a digest, and hostile ones whose framing or facts were made to fit."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from bench.attacks.corpus import bytewise, commands, executables, frames, hostile, intact, originals, trees
from bench.attacks.corpus.case import WHOLE, Draft
from bench.attacks.corpus.saved import changed, hostile_tree
from ncu_swizzle.base import cache


def report_of_ours(chance: Random) -> Draft:
    """Damage a report whose facts hold its digest: none may be read."""
    source, other = chance.sample(originals.RECORDED, 2)
    damage = chance.choice(list(bytewise.BINARY))
    whole = originals.report(source)
    data = bytewise.BINARY[damage](whole, originals.report(other), chance)
    files = {"k.ncu-rep": data, "k.facts.json": trees.written(intact.facts(source)), WHOLE: intact.saved(other)}
    command, outputs = commands.showing("k.ncu-rep", chance, WHOLE)
    return Draft(damage, source, files, command, data != whole, outputs)


def hostile_report(chance: Random) -> Draft:
    """Damage a report that no facts protect, or whose facts were made to fit; most of it so that its framing stays."""
    source = chance.choice((*originals.RECORDED, *originals.FOREIGN))
    whole = originals.report(source)
    damage = chance.choice(list(REPORT_DAMAGES))
    data = REPORT_DAMAGES[damage](whole, originals.report(chance.choice(originals.RECORDED)), chance)
    files = {"k.ncu-rep": data, WHOLE: intact.saved(originals.RECORDED[0])}
    if source in originals.RECORDED and chance.random() < 0.5:
        content = {**intact.facts(source), "report": {"sha256": cache.sha256(data), "bytes": len(data)}}
        files["k.facts.json"] = trees.written(content, intact.sealed_facts)
    command, outputs = commands.showing("k.ncu-rep", chance, WHOLE)
    return Draft(damage, source, files, command, False, outputs)


def hostile_facts(chance: Random) -> Draft:
    """Damage the facts beside a report: unsealed, or sealed again."""
    source = chance.choice(originals.RECORDED)
    content = intact.facts(source)
    damage = chance.choice(
        ("a hostile value, sealed", "a hostile value, sealed", "hostile texts, sealed", *bytewise.TEXT)
    )
    must_refuse = False
    if damage.endswith("sealed"):
        data = trees.written(hostile_tree(content, damage, chance), intact.sealed_facts)
    else:
        whole = trees.written(content)
        data = bytewise.TEXT[damage](whole, trees.written(intact.facts(chance.choice(originals.RECORDED))), chance)
        must_refuse = changed(data, content)
    files = {"k.ncu-rep": originals.report(source), "k.facts.json": data, WHOLE: intact.saved(originals.RECORDED[0])}
    command, outputs = commands.showing("k.ncu-rep", chance, WHOLE)
    return Draft(damage, source, files, command, must_refuse, outputs)


def with_hostile_texts(message: bytes, text: bytes, depth: int = 4) -> bytes:
    """Return the message with every text in it ending in a hostile one; code stays as it is."""
    parts = frames.taken_apart(message)
    for index, (number, wire, value) in enumerate(parts):
        if wire != 2 or isinstance(value, int):
            continue
        if frames.is_text(value):
            parts[index] = (number, wire, value + text)
        elif depth and not value.startswith(b"\x7fELF"):
            try:
                parts[index] = (number, wire, with_hostile_texts(value, text, depth - 1))
            except (ValueError, IndexError):
                continue
    return frames.put_together(parts)


def _in_message(change: Callable[[bytes, Random], bytes], kind: int | None = None) -> bytewise.Damage:
    def damaged(data: bytes, other: bytes, chance: Random) -> bytes:  # noqa: ARG001 - as every damage
        apart = frames.Report.taken_apart(data)
        return apart.changed(lambda message: change(message, chance), chance, kind).put_together()

    return damaged


def _hostile_cubin(message: bytes, chance: Random) -> bytes:
    parts = frames.taken_apart(message)
    for index, (number, wire, value) in enumerate(parts):
        if isinstance(value, bytes) and value.startswith(b"\x7fELF"):
            parts[index] = (
                number,
                wire,
                executables.CUBIN_DAMAGES[chance.choice(list(executables.CUBIN_DAMAGES))](value, value, chance),
            )
    return frames.put_together(parts)


def _hostile_texts(message: bytes, chance: Random) -> bytes:
    return with_hostile_texts(message, chance.choice(hostile.TEXTS).encode("utf-8", "replace"))


def _hostile_name(message: bytes, chance: Random) -> bytes:
    """Change the kernel's names: ProfileResult's fields 5, 6 and 7."""
    text = hostile.text(chance).encode("utf-8", "replace")
    chosen = chance.choice(((5, 6, 7), (6, 7), (7,), (6,), (5,)))
    parts = frames.taken_apart(message)
    return frames.put_together([(n, w, text if n in chosen and w == 2 else value) for n, w, value in parts])


REPORT_DAMAGES: dict[str, bytewise.Damage] = {
    "a field": _in_message(frames.with_hostile_field),
    "a field of a kernel": _in_message(frames.with_hostile_field, 2),
    "a field of a source": _in_message(frames.with_hostile_field, 1),
    "its cubin": _in_message(_hostile_cubin, 1),
    "texts": _in_message(_hostile_texts),
    "a name": _in_message(_hostile_name, 2),
    **bytewise.BINARY,
}
