"""The limits of a profile's size: far more than ncu writes, and little enough to show within seconds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sized

from ncu_swizzle.reports.model import Profile

LONGEST_NAME = 20_000  # characters
LONGEST_TEXT = 1_000_000
MOST_IN_STACKS = 200_000_000  # characters of files' names, which CSV repeats in every row
_MOST: tuple[tuple[str, int, Callable[[Profile], Sized]], ...] = (
    ("metrics", 20_000, lambda p: p.metrics),
    ("findings", 5_000, lambda p: p.findings),
    ("notes", 1_000, lambda p: p.notes),
    ("checked outputs", 1_000, lambda p: p.errors),
    ("problem sizes", 1_000, lambda p: p.problem),
    ("sources", 10_000, lambda p: p.sources),
    ("stall reasons", 200, lambda p: {reason for i in p.instructions for reason in i.samples} | p.stalls.keys()),
)


def excess(profile: Profile) -> str:
    """Return a part of a profile that is larger than any that ncu writes, and its limit; empty if there is none."""
    return next(_excesses(profile), "")


def _excesses(profile: Profile) -> Iterator[str]:
    for what, most, part in _MOST:
        if len(part(profile)) > most:
            yield f"it has {len(part(profile)):,} {what}, and the limit is {most:,}"
    kernel = profile.kernel
    for name in (*kernel.names, kernel.family, kernel.title, *profile.metrics):
        if len(name) > LONGEST_NAME:
            yield f"the name {name[:20]}… has {len(name):,} characters, and the limit is {LONGEST_NAME:,}"
    for text in (profile.command, *profile.notes, *(finding.message for finding in profile.findings)):
        if len(text) > LONGEST_TEXT:
            yield f"the text {text[:20]}… has {len(text):,} characters, and the limit is {LONGEST_TEXT:,}"
    if sum(len(i.sass) + len(i.opcode) for i in profile.instructions) > 50 * LONGEST_TEXT:
        yield f"its instructions have more than {50 * LONGEST_TEXT:,} characters, the limit"
    if sum(len(file) for i in profile.instructions for file, _ in i.stack) > MOST_IN_STACKS:
        yield f"its instructions' callers have file names of more than {MOST_IN_STACKS:,} characters, the limit"
