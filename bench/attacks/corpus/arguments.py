"""Command lines that nobody types by accident."""

from __future__ import annotations

from random import Random

from bench.attacks.corpus import hostile, originals
from bench.attacks.corpus.case import Draft

LAUNCHES = (
    {"--grid": "60000000"}, {"--grid": "100000", "--block": "1024"}, {"--grid": "2147483647,65535,65535"},
    {"--grid": "0"},
    {"--block": "1024"}, {"--block": "1025"}, {"--block": "-1"}, {"--block": "0"}, {"--shared": "10**9"},
    {"--grid": "10**20"},
    {"--grid": "9**9**9"}, {"--grid": "1,1,1,1"}, {"--grid": ""}, {"--block": "32,32,32"}, {"--shared": "-1"},
    {"--shared": "232448"},
    {"--problem": "n=10000000000000000000000"}, {"--problem": "n=0"}, {"--problem": "n=-1"}, {"--problem": "n=1e9"},
    {"--problem": "n=" + "9" * 5000},
    {"--problem": "n=3000000"}, {"--kernel": "x" * 100_000}, {"--kernel": "f<" * 20_000},
    {"--kernel": "\x1b[31mname"}, {"--kernel": "(.*)*X"},
)  # fmt: skip


def hostile_launch(launch: tuple[str, ...], chance: Random) -> tuple[str, ...]:
    """Return the options of a launch with another size in them."""
    changes = chance.choice(LAUNCHES)
    pairs = list(zip(launch[::2], launch[1::2], strict=True))
    kept = [part for name, value in pairs if name not in changes for part in (name, value)]
    return (*kept, *(part for item in changes.items() for part in item))


LAYOUTS = ("(64,64):(64,1)", "(8,8):(1,8)", "tid * 128", "kernel1", "k.ncu-rep", "w.json", "m16n8k8")
SIZES, NUMBERS = hostile.VALUES["sizes"], hostile.VALUES["numbers"]
OPTIONS = (
    "--elem", "--swizzle", "--pad", "--access", "--row", "--request", "--banks", "--op", "--active", "--threads",
    "--write",
    "--read", "--problem", "--max-bytes", "--copies", "--arch", "--kernel-name", "--launch", "--pair",
    "--max-excessive",
    "--max-degree", "--max-regression", "--baseline", "--config", "--timeout", "--nvcc", "--ncu",
    "--engine", "--html",
    "--svg", "--json", "--csv", "--markdown", "-o", "--out", "--arg", "-D", "-I", "--std", "--nvcc-option",
)  # fmt: skip
REGULAR = (
    "regex:(.*)*X",
    "regex:(a|a)*b",
    "regex:(",
    "(x+x+)+y",
    "regex:" + "(" * 5_000,
    "regex:" + "a?" * 200 + "a" * 200,
)
WRITING = ("--html", "--svg", "--json", "--csv", "--markdown", "-o", "--out")
_FILES = ("out", "out.json", "out.html", "-", ".", "missing/out", "x" * 300, "out\udcff", "\x1b[31mout")
COMMANDS = (
    "explain",
    "explain --show wavefronts",
    "explain --show mapping",
    "explain --show phases",
    "report",
    "check",
    "lint",
    "profile",
    "sweep",
    "profile --no-ncu",
    "list",
    "rules apply",
)
NAMES = (
    "\udcff\udcfe.ncu-rep",
    "k\udcff.json",
    "\x1b[31mred.json",
    "\u202egnp.json",
    "=1+1.json",
    "a\nb.json",
    "x" * 300 + ".json",
    "x" * 5_000,
    "-",
    "--",
    "/dev/stdin",
    "/dev/zero",
)
ENCODINGS = (
    {},
    {},
    {},
    {"PYTHONIOENCODING": "latin-1"},
    {"PYTHONIOENCODING": "ascii"},
    {"COLUMNS": "1"},
    {"COLUMNS": "99999999"},
    {"COLUMNS": "0"},
)


def hostile_arguments(chance: Random) -> Draft:
    """Return a command with a value in an argument or an option that does not belong there."""
    command = [
        *chance.choice(COMMANDS).split(),
        *(
            chance.choice((*LAYOUTS, *SIZES, *NAMES, *REGULAR, *_texts()))
            for _ in range(chance.choice((0, 1, 1, 1, 2)))
        ),
    ]
    for _ in range(chance.choice((0, 1, 1, 2))):
        option = chance.choice(OPTIONS)
        values = _FILES if option in WRITING else (*LAYOUTS, *SIZES, *NUMBERS, *REGULAR, *NAMES, *_texts())
        command += [option, chance.choice(values)]
    files = {
        "k.ncu-rep": originals.report("tma/tma-128"),
        "w.json": originals.profile("tma/tma-128").to_json().encode(),
    }
    name = chance.choice(NAMES[:6])
    files[name] = files["w.json"] if name.endswith("json") else files["k.ncu-rep"]
    if chance.random() < 0.3:
        command = [chance.choice(("report", "check")), name]
    words = tuple(word.replace("\0", "0")[:100_000] for word in command)
    return Draft(command[0], "", files, words, False, (), chance.choice(ENCODINGS))


def _texts() -> tuple[str, ...]:
    return tuple(text.replace("\0", "") for text in hostile.TEXTS)
