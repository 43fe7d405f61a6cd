"""Names of earlier releases: each answers with the command to type now, with what was typed. To go in the next one."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence

from ncu_swizzle.base.errors import Typed, UsageError

Words = Sequence[str]


def refuse(words: Words) -> None:
    """Raise UsageError for a command or an option that has another name now."""
    name = words[0] if words else ""
    if name in COMMANDS:
        now = COMMANDS[name](words[1:])
        raise UsageError(f"ncu-swizzle {name} is now ncu-swizzle {now[0]}", Typed(shlex.join(["ncu-swizzle", *now])))
    for option, new in OPTIONS.get(name, {}).items():
        if _old(words, option, new):
            now = translated(words, {option: new})
            raise UsageError(f"{option} of ncu-swizzle {name} has changed", Typed(shlex.join(["ncu-swizzle", *now])))


def _old(words: Words, option: str, new: Words) -> bool:
    """Return whether an option is typed as it was: under another name, or without the file that it takes now."""
    typed = [word.partition("=")[0] for word in words[: words.index("--") if "--" in words else None]]
    if option not in typed or option != new[0]:
        return option in typed
    following = words[typed.index(option) + 1 :][:1]
    return "=" not in words[typed.index(option)] and (
        not following or (following[0].startswith("-") and following != ["-"])
    )


def translated(words: Words, options: Mapping[str, Words]) -> list[str]:
    """Return the words with other options in place of these, before any ``--``."""
    end = words.index("--") if "--" in words else len(words)
    now: list[str] = []
    for word in words[:end]:
        name, equals, value = word.partition("=")
        now += [*options[name], *([value] if equals else [])] if name in options else [word]
    return [*now, *words[end:]]


def _explain(part: str) -> Callable[[Words], list[str]]:
    def words(typed: Words) -> list[str]:
        now = translated(typed, {"--json": ("--json", "-")})
        asked = any(word.partition("=")[0] == "--show" for word in now)
        return ["explain", *now, *([] if asked else ["--show", part])]

    return words


def _run(typed: Words) -> list[str]:
    options = {"--no-reference": ("--reference", "none"), "--reference": (), "--json": ("--json", "-")}
    return ["profile", *translated(typed, options), "--no-ncu"]


def _compare(typed: Words) -> list[str]:
    return ["report", *translated(typed, {"--html": ("-o",)})]


def _baseline(typed: Words) -> list[str]:
    action = "--show-baseline" if typed[:1] == ["show"] else "--save-baseline"
    rest = typed[1:] if typed[:1] in (["show"], ["save"]) else typed
    return ["check", *translated(rest, {"--file": ("--baseline",)}), action]


COMMANDS: Mapping[str, Callable[[Words], list[str]]] = {
    "banks": _explain("map"),
    "predict": _explain("wavefronts"),
    "suggest": _explain("mapping"),
    "run": _run,
    "compare": _compare,
    "baseline": _baseline,
    "mcp": lambda typed: ["serve", "mcp", *typed],
    "lsp": lambda typed: ["serve", "lsp", *typed],
}

OPTIONS: Mapping[str, Mapping[str, Words]] = {
    "list": {"--json": ("--json", "-"), "--markdown": ("--markdown", "-")},
    "doctor": {"--json": ("--json", "-")},
    "profile": {"--export": ("-o",)},
    "sweep": {"--export": ("-o",)},
}
