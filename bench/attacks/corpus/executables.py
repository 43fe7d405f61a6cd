"""Drafts of cubins and PTX, damaged where their formats give a meaning, or launched in sizes that nothing holds."""

from __future__ import annotations

import re
from collections.abc import Callable
from random import Random

from bench.attacks.corpus import arguments, binaries, bytewise, commands, hostile, intact
from bench.attacks.corpus.case import Draft


def cubin(chance: Random) -> Draft:
    """Damage a cubin, or launch it in a size that nothing holds."""
    name, other = chance.sample(intact.KERNELS, 2)
    damage = chance.choice((*CUBIN_DAMAGES, "a hostile launch"))
    whole, launch = intact.compiled(name).cubin, intact.compiled(name).launch
    if damage == "a hostile launch":
        data, launch = whole, arguments.hostile_launch(launch, chance)
    else:
        data = CUBIN_DAMAGES[damage](whole, intact.compiled(other).cubin, chance)
    command, outputs = commands.emulating("k.cubin", launch, chance)
    return Draft(damage, name, {"k.cubin": data}, command, False, outputs)


def ptx(chance: Random) -> Draft:
    name, other = chance.sample(intact.KERNELS, 2)
    damage = chance.choice((*PTX_DAMAGES, *bytewise.BINARY))
    change = {**PTX_DAMAGES, **bytewise.BINARY}[damage]
    data = change(intact.compiled(name).ptx, intact.compiled(other).ptx, chance)
    command, outputs = commands.emulating("k.ptx", intact.compiled(name).launch, chance)
    return Draft(damage, name, {"k.ptx": data}, command, False, outputs)


_NUMBER = re.compile(rb"(?<![\w.%])\d+\b")
_NAME = re.compile(rb'[$%_A-Za-z][\w$]*|"[^"\n]*"')
_BRANCH = b"\n\t$HOSTILE: bra $HOSTILE;\n"


def ptx_with_hostile_number(ptx: bytes, chance: Random) -> bytes:
    """Return the text with one number changed."""
    place = chance.choice(list(_NUMBER.finditer(ptx)))
    return ptx[: place.start()] + str(chance.choice(hostile.INTEGERS))[:5000].encode() + ptx[place.end() :]


def ptx_with_hostile_name(ptx: bytes, chance: Random) -> bytes:
    """Return the text with one name or quoted text changed, everywhere."""
    name = chance.choice(sorted(set(_NAME.findall(ptx))))
    text = hostile.text(chance).encode("utf-8", "replace")
    return ptx.replace(name, b'"' + text + b'"' if name.startswith(b'"') else text)


def ptx_with_lines_moved(ptx: bytes, chance: Random) -> bytes:
    """Return the text with a line dropped, repeated, moved, or a loop that never ends in its place."""
    lines = ptx.split(b"\n")
    index, other = (chance.randrange(len(lines)) for _ in range(2))
    fate = chance.randrange(4)
    if fate == 0:
        del lines[index]
    elif fate == 1:
        lines.insert(index, lines[other])
    elif fate == 2:
        lines[index], lines[other] = lines[other], lines[index]
    else:
        lines.insert(chance.choice([i for i, line in enumerate(lines) if line.strip().endswith(b";")]), _BRANCH)
    return b"\n".join(lines)


def _without_other(change: Callable[[bytes, Random], bytes]) -> bytewise.Damage:
    return lambda data, other, chance: change(data, chance)


CUBIN_DAMAGES: dict[str, bytewise.Damage] = {
    "a header field": _without_other(binaries.with_hostile_header),
    "a section's header": _without_other(binaries.with_hostile_section),
    "a symbol": _without_other(binaries.with_hostile_symbol),
    "code": _without_other(lambda data, chance: binaries.with_damaged_section(data, chance, r"\.text")),
    "the line table": _without_other(
        lambda data, chance: binaries.with_damaged_section(data, chance, r"\.(nv_)?debug_")
    ),
    "attributes": _without_other(lambda data, chance: binaries.with_damaged_section(data, chance, r"\.nv\.|\.note")),
    "names": _without_other(binaries.with_hostile_names),
    "one bit": bytewise.BINARY["one bit"],
    "many bits": bytewise.BINARY["many bits"],
    "cut": bytewise.BINARY["cut"],
    "spliced with another": bytewise.BINARY["spliced with another"],
}
PTX_DAMAGES: dict[str, bytewise.Damage] = {
    "a number": _without_other(ptx_with_hostile_number),
    "a name": _without_other(ptx_with_hostile_name),
    "lines": _without_other(ptx_with_lines_moved),
    "more lines": _without_other(ptx_with_lines_moved),
}
