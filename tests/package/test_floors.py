"""The house: rooms stand on floors, and lower never imports higher. `make lint` runs this."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "ncu_swizzle"
MOST_ON_TOP = 16

# From the ground up. A room imports rooms of lower floors only; rooms of one floor do not know each other.
FLOORS = (
    ("errors",),
    ("bounds", "option", "texts", "unfinished", "validate"),
    ("digest", "files", "paths"),
    ("cache", "child"),
    ("smem",),
    ("cubin", "emulate"),
    ("catalog",),
    ("build", "profiles", "source", "tiles"),
    ("frontends", "launches", "pack"),
    ("capture", "ncurep"),
    ("ncu",),
    ("engines", "launch"),
    ("fleet", "render"),
    ("history", "jobs"),
    ("doctor", "gate", "model", "sweep"),
    ("proof",),
    ("patch",),
    ("fix",),
    ("answers",),
    ("testing",),
    ("api",),
    ("pytest_plugin", "service"),
    ("assistant", "editor"),
    ("commands",),
    ("cli",),
    ("__main__",),
)
FLOOR = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}


def modules() -> dict[str, Path]:
    """Return every module of the package by its dotted name; a room is called like its folder."""
    files = sorted(PACKAGE.rglob("*.py"))
    return {".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): file for file in files}


MODULES = {name: file for name, file in modules().items() if "_data" not in name}


def imports(module: str) -> Iterator[str]:
    """Yield what a module imports of the package: at the top, inside functions, for types only."""
    for node in ast.walk(ast.parse(MODULES[module].read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in MODULES)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}: imports are absolute"
            for alias in node.names:
                inside = f"{node.module}.{alias.name}"
                if inside in MODULES or node.module in MODULES:
                    yield inside if inside in MODULES else str(node.module)


def room(module: str) -> str:
    return module.partition(".")[2].partition(".")[0]


GRAPH = {module: sorted({other for other in imports(module) if other not in (module, PACKAGE.name)})
         for module in MODULES if module != PACKAGE.name}  # fmt: skip


def test_lower_never_imports_higher() -> None:
    climbs = [
        f"{module} imports {other}"
        for module, others in GRAPH.items()
        for other in others
        if room(module) != room(other) and FLOOR[room(module)] <= FLOOR[room(other)]
    ]
    assert climbs == []


def test_no_modules_import_each_other_in_a_circle() -> None:
    reached: dict[str, set[str]] = {}

    def reach(module: str) -> set[str]:
        if module not in reached:
            reached[module] = set()
            for other in GRAPH[module]:
                reached[module] |= {other} | reach(other)
        return reached[module]

    assert [module for module in GRAPH if module in reach(module)] == []


def test_every_room_stands_on_a_floor() -> None:
    assert {room(module) for module in GRAPH} == set(FLOOR)


def test_the_top_floor_stays_small() -> None:
    assert len(list(PACKAGE.glob("*.py"))) <= MOST_ON_TOP


@pytest.mark.parametrize("name", ["smem", "emulate"])
def test_what_could_stand_alone_knows_nothing_else(name: str) -> None:
    known = {room(other) for module, others in GRAPH.items() if room(module) == name for other in others}
    assert known <= {name, "smem", "errors"}


def test_contributing_draws_these_floors() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    drawn = re.findall(r"^ *\d+  (\S.*?)(?:   .*)?$", text.partition("```floors")[2].partition("```")[0], re.MULTILINE)
    assert [tuple(floor.split()) for floor in reversed(drawn)] == list(FLOORS)
