"""The ncu command that collects what a report lacks, derived from the command that produced the report.

A report stores ncu's command line with its words joined by spaces: quoting is lost, so the program's part is repeated
verbatim.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass

from ncu_swizzle import paths
from ncu_swizzle.cubin import demangled
from ncu_swizzle.profiles.model import Profile

SECTION = "SwizzleConflicts"
UNKNOWN_PROGRAM = "PROGRAM"
MOST_MANGLED = 120  # characters; longer names do not belong on a command line


def _options(text: str) -> frozenset[str]:
    return frozenset(text.split())


# ncu options without a value.
FLAGS = _options(
    "-f --force-overwrite --nvtx --null-stdin --call-stack --csv --quiet --verbose --open-in-ui --details-all "
    "--print-fp --print-rule-details --disable-profiler-start-stop --lockstep-kernel-launch "
    "--section-folder-restore --list-sections --list-sets --list-metrics --list-rules --query-metrics --list-chips "
    "-h --help -v --version"
)
# Options that say how the program runs and where ncu looks; the others select metrics and kernels.
KEPT = _options(
    "--profile-from-start --target-processes --target-processes-filter --replay-mode --app-replay-match "
    "--app-replay-mode --clock-control --cache-control --devices --nvtx --nvtx-include --nvtx-exclude --range-filter "
    "--disable-profiler-start-stop --null-stdin --config-file --config-file-path --preload-library --kill "
    "--check-exit-code --source-folders"
)
# With these, a launch's occurrence in the report differs from its occurrence in the program.
SKIPPING = _options("-s --launch-skip --launch-skip-before-match --kernel-id --filter-mode")
CHOOSING = _options("-k --kernel-name --kernel-name-base -c --launch-count") | SKIPPING


@dataclass(frozen=True)
class Session:
    """An ncu command line: its options with their values, and the program with its arguments."""

    options: tuple[tuple[str, ...], ...] = ()
    program: str = ""


def split_command(command: str) -> Session:
    """Split a command line as stored in a report; empty if it is not one of ncu's."""
    words = [(word.group(), word.start()) for word in re.finditer(r"\S+", command)]
    options: list[tuple[str, ...]] = []
    position = 1
    while position < len(words):
        word, start = words[position]
        if word == "--":
            return Session(tuple(options), command[start + 2 :].strip())
        if not word.startswith("-"):
            return Session(tuple(options), command[start:].strip())
        name, equals, value = word.partition("=")
        position += 1
        if equals:
            options.append((name, value))
        elif name in FLAGS or position == len(words):
            options.append((name,))
        else:
            options.append((name, words[position][0]))
            position += 1
    return Session(tuple(options))


def command(profile: Profile) -> str:
    """Return the command that collects every metric for this very launch, with its program if known."""
    session = split_command(profile.command)
    return _command(session, KEPT, _filter(profile, session))


def command_for_all(profile: Profile) -> str:
    """Return the command that collects every metric for all kernels of the profile's report."""
    return _command(split_command(profile.command), KEPT | CHOOSING, [])


def _command(session: Session, kept: frozenset[str], chosen: list[str]) -> str:
    words = ["ncu", "--section-folder", str(paths.rules()), "--section", SECTION]
    for name, *values in session.options:
        if name in kept and not (name == "--replay-mode" and "range" in "".join(values)):
            words += [name, *values]
    words += [*chosen, "--import-source", "yes", "--export", "complete"]
    return f"{shlex.join(words)} -- {session.program or UNKNOWN_PROGRAM}"


def _filter(profile: Profile, session: Session) -> list[str]:
    """Return the options that select this launch; none for a range or graph, whose kernels are not known."""
    launch, kernel = profile.launch, profile.kernel
    if launch.workload != "kernel":
        return []
    if kernel.mangled and len(kernel.mangled) <= MOST_MANGLED:
        chosen = ["--kernel-name-base", "mangled", "--kernel-name", kernel.mangled]
    else:
        chosen = ["--kernel-name", demangled.function(kernel.function) or kernel.name]
    countable = launch.occurrence and not SKIPPING & {option[0] for option in session.options}
    return [*chosen, *(["--launch-skip", str(launch.occurrence)] if countable else []), "--launch-count", "1"]
