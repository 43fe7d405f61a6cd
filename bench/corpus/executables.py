"""Drafts of cubins and PTX, damaged where their formats give a meaning, or launched in sizes that nothing holds."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from tests.support.corpus import arguments, binaries, bytewise, commands, originals
from tests.support.corpus.case import Draft


def cubin(chance: Random) -> Draft:
    """Damage a cubin, or launch it in a size that nothing holds."""
    name, other = chance.sample(originals.KERNELS, 2)
    damage = chance.choice((*CUBIN_DAMAGES, "a hostile launch"))
    whole, launch = originals.compiled(name).cubin, originals.compiled(name).launch
    if damage == "a hostile launch":
        data, launch = whole, arguments.hostile_launch(launch, chance)
    else:
        data = CUBIN_DAMAGES[damage](whole, originals.compiled(other).cubin, chance)
    command, outputs = commands.emulating("k.cubin", launch, chance)
    return Draft(damage, name, {"k.cubin": data}, command, False, outputs)


def ptx(chance: Random) -> Draft:
    name, other = chance.sample(originals.KERNELS, 2)
    damage = chance.choice((*PTX_DAMAGES, *bytewise.BINARY))
    change = {**PTX_DAMAGES, **bytewise.BINARY}[damage]
    data = change(originals.compiled(name).ptx, originals.compiled(other).ptx, chance)
    command, outputs = commands.emulating("k.ptx", originals.compiled(name).launch, chance)
    return Draft(damage, name, {"k.ptx": data}, command, False, outputs)


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
    "a number": _without_other(binaries.ptx_with_hostile_number),
    "a name": _without_other(binaries.ptx_with_hostile_name),
    "lines": _without_other(binaries.ptx_with_lines_moved),
    "more lines": _without_other(binaries.ptx_with_lines_moved),
}
