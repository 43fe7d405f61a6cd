"""The textual differences of two PTX modules: which kernels to compare, and what must be identical."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ncu_swizzle.certify.change import name_of
from ncu_swizzle.certify.ptx import OTHER, Module, Part


def renamed(ptx: str, symbol: str, name: str) -> str:
    """Return PTX in which a symbol has another name."""
    return re.sub(rf"(?<![\w$%]){re.escape(symbol)}(?=(_param_\d+)?(?![\w$]))", name, ptx)


def outside_of_kernels(before: Module, after: Module, symbols: Iterable[str]) -> str:
    """Return what differs that is not code of these kernels, in words; empty if nothing does.

    A variable of the device keeps its size and initial value: any kernel and the host may read it. A function that
    other units may call keeps its code. What is new has no reader yet but the kernels, which are compared.
    """
    reached = {name for module in (before, after) for symbol in symbols for name in module.code(symbol)}
    for name, old in before.parts.items():
        new = after.parts.get(name)
        if old == new or old.kind in ("entry", "shared"):
            continue
        if old.kind == "func" and (name in reached or new is None) and not _is_visible(old):
            # Whoever has its address may call it: kernels that do not change among them.
            if any(_takes_address(part, name) for module in (before, after) for part in module.parts.values()):
                return f"the address of the function {name_of(name)} is taken, and it differs"
            continue
        if new is not None:
            return f"the {_kind(old)} {name_of(name)} differs"
        if _is_visible(old) or old.kind == OTHER:
            return f"the new version lacks the {_kind(old)} {name_of(name)}"
    return ""


def _takes_address(part: Part, name: str) -> bool:
    """Return whether code or initial values mention a function other than to call or declare it."""
    if not re.search(rf"(?<![\w$.]){re.escape(name)}(?![\w$])", part.text):
        return False
    uses = re.sub(r"\bcall\b[^;]*+;?+|\.func\b[^;{]*+[;{]?+", "", part.text)
    return re.search(rf"(?<![\w$.]){re.escape(name)}(?![\w$])", uses) is not None


def _kind(part: Part) -> str:
    return {"func": "function", OTHER: OTHER}.get(part.kind, "variable")


def _is_visible(part: Part) -> bool:
    return re.search(r"^[^\S\n]*+\.(visible|weak|common)\b", part.text, re.MULTILINE) is not None


def kernels_apart(before: Module, after: Module) -> str:
    """Return which kernels only one version has, in words; empty if both have the same."""
    for first, second, version in ((before, after, "old"), (after, before, "new")):
        if missing := [name_of(symbol) for symbol in first.kernels if symbol not in second.kernels]:
            return f"only the {version} version has the kernel {missing[0]}"
    return ""


def refusal(before: Module, after: Module, symbol: str) -> str:
    """Return why two versions of a kernel are not launched alike, in words; empty if they are."""
    old, new = before.parts[symbol], after.parts[symbol]
    if old.parameters != new.parameters:
        return "the kernel's parameters differ"
    if old.bounds != new.bounds:
        return f"the kernel's launch bounds differ: {old.bounds or 'none'} before, {new.bounds or 'none'} after"
    return ""
