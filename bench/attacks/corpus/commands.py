"""The commands that read a kind of file, with every output that they can write."""

from __future__ import annotations

from random import Random

Command = tuple[tuple[str, ...], tuple[str, ...]]  # the arguments, and the files that they name for output

FORMATS = ("--json", "out.json", "--markdown", "out.md", "--csv", "out.csv")
WRITTEN = ("out.json", "out.md", "out.csv")
GATE = ("--junit", "out.xml", "--sarif", "out.sarif", "--json", "out.json", "--github")
JUDGED = ("out.xml", "out.sarif", "out.json")


def showing(file: str, chance: Random, whole: str = "") -> Command:
    """Return a command that shows a report, a saved profile or a run; `whole` is an intact one to hold it against."""
    first = [whole] if whole and chance.random() < 0.3 else []
    every: tuple[Command, ...] = (
        (("report", *first, file, "-o", "out.html", *FORMATS), ("out.html", *WRITTEN)),
        (("report", file, "-o", "out.html", "--csv", "-"), ("out.html",)),
        (("report", file, "-o", "out.html", "--markdown", "-"), ("out.html",)),
        (("check", *first, file, "--config", "none", "--allow-recorded", *GATE), JUDGED),
        (("check", file, "--config", "none", "--allow-recorded", "--max-degree", "*=1", "--max-excessive", "0"), ()),
        (("check", file, "--save-baseline", "--baseline", "base.json"), ("base.json",)),
        (("rules", "apply", file, "--json", "out.json"), ("out.json",)),
        (("rules", "apply", file), ()),
    )
    return chance.choice(every)


def holding_against(baseline: str, profile: str, chance: Random) -> Command:
    """Return a command that reads a baseline."""
    check = ("check", profile, "--baseline", baseline, "--config", "none", "--allow-recorded")
    every: tuple[Command, ...] = (
        ((*check, "--max-regression", "5", *GATE), JUDGED),
        ((*check, "--max-regression", "5"), ()),
        (check, ()),
        (("check", profile, "--save-baseline", "--baseline", baseline), (baseline,)),
    )
    return chance.choice(every)


def emulating(file: str, launch: tuple[str, ...], chance: Random) -> Command:
    """Return a command that executes a cubin or PTX."""
    launch = (*launch, "--timeout", "5", "--budget", "5")  # damaged code may loop for ever
    linted = ("--sarif", "out.sarif", "--junit", "out.xml", "--json", "out.json", "--github")
    every: tuple[Command, ...] = (
        (("lint", file, "--config", "none", *launch), ()),
        (("lint", file, "--config", "none", *launch, *linted), ("out.sarif", "out.xml", "out.json")),
        (("profile", "--engine", "emulated", file, "--config", "none", *launch, "-o", "out"), ()),
    )
    return chance.choice(every)


def replaying(file: str, chance: Random) -> Command:
    """Return a command that replays captured launches."""
    brief = ("--timeout", "5", "--budget", "5")
    every: tuple[Command, ...] = (
        (("lint", file, "--config", "none", *brief), ()),
        (("lint", file, "--config", "none", *brief, *GATE), JUDGED),
        (("profile", file, *brief, "-o", "out", *FORMATS), WRITTEN),
        (("profile", file, *brief, "-k", "turn", "-c", "1", "-o", "out"), ()),
        (("check", file, "--config", "none", "--max-degree", "1", *brief, *GATE), JUDGED),
        (("report", file, "-o", "out.html", "--csv", "-"), ("out.html",)),
        (("report", file, file, "-o", "out.html"), ("out.html",)),
        (("explain", file), ()),
    )
    return chance.choice(every)


def planning(project: str, kernel: str, chance: Random) -> Command:
    """Return a command that reads ncu-swizzle.toml or pyproject.toml, and may compile what it describes."""
    every: tuple[Command, ...] = (
        (("list", "--config", project), ()),
        (("list", "--config", project, "--json", "-"), ()),
        (("list", "--config", project, "--markdown", "-"), ()),
        (("lint", project), ()),
        (("lint", project, *GATE), JUDGED),
        (("lint", "my.cu"), ()),
        (("profile", "--engine", "emulated", kernel, "--config", project, "-o", "out"), ()),
        (("explain", kernel, "--config", project), ()),
        (("check", "w.json", "--config", project, *GATE), JUDGED),
        (("check", "w.json"), ()),
        (("profile", "--no-ncu", kernel, "--config", project), ()),
    )
    return chance.choice(every)


def compiling(project: str, chance: Random) -> Command:
    """Return a command that compiles what a project describes."""
    kernel = chance.choice(("tile-swizzled", "tile-rowmajor"))
    every: tuple[Command, ...] = (
        (("lint", project), ()),
        (("lint", "my.cu"), ()),
        (("lint", kernel), ()),
        (("profile", "--engine", "emulated", kernel, "-o", "out"), ()),
        (("check", kernel, "--engine", "emulated"), ()),
        (("report", "tile-rowmajor", "tile-swizzled", "--engine", "emulated", "-o", "out.html"), ("out.html",)),
        (("sweep", kernel, "--engine", "emulated", "-o", "out"), ()),
    )
    return chance.choice(every)
