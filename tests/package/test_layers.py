"""The house: lower layers never import higher ones, and nothing imports itself. `make lint` runs this."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

pytestmark = pytest.mark.xdist_group("layers")  # one worker parses the package
ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "ncu_swizzle"
# From the ground up. A room imports rooms of lower layers only; rooms of one layer do not know each other.
LAYERS = (
    ("base",),
    ("smem",),
    ("cubin", "emulate"),
    ("kernels", "cycles"),
    ("reports",),
    ("capture", "frontends", "render"),
    ("engines",),
    ("certify",),
    ("explain", "sweep"),
    ("gate",),
    ("fix",),
    ("commands",),
    ("pytest_plugin", "servers"),
    ("cli",),
    ("__main__",),
)
LAYER = {room: number for number, rooms in enumerate(LAYERS) for room in rooms}


def modules() -> dict[str, Path]:
    """Return every module of the package by its dotted name; a room is called like its folder."""
    files = sorted(PACKAGE.rglob("*.py"))
    return {".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): file for file in files}


MODULES = {name: file for name, file in modules().items() if "_data" not in name}


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the statements in a module, which alone can import."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt | ast.excepthandler | ast.match_case):
            yield child
            yield from statements(child)


def imports(module: str) -> Iterator[str]:
    """Yield what a module imports of the package: at the top, inside functions, for types only."""
    for node in statements(ast.parse(MODULES[module].read_text(encoding="utf-8"))):
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


@cache
def graph() -> dict[str, set[str]]:
    """Return what each module imports, by the module."""
    return {module: {*imports(module)} - {module, PACKAGE.name} for module in MODULES if module != PACKAGE.name}


def test_lower_never_imports_higher() -> None:
    climbs = [
        f"{module} imports {other}"
        for module, others in graph().items()
        for other in others
        if room(module) != room(other) and LAYER[room(module)] <= LAYER[room(other)]
    ]
    assert climbs == []


def test_no_modules_import_each_other_in_a_circle() -> None:
    reached: dict[str, set[str]] = {}

    def reach(module: str) -> set[str]:
        if module not in reached:
            reached[module] = set()
            for other in graph()[module]:
                reached[module] |= {other} | reach(other)
        return reached[module]

    assert [module for module in graph() if module in reach(module)] == []


def test_every_room_has_a_layer() -> None:
    assert {room(module) for module in graph()} == set(LAYER)


def test_contributing_draws_these_layers() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    drawn = re.findall(r"^(\S.*?)  .*$", text.partition("```layers")[2].partition("```")[0], re.MULTILINE)
    assert [tuple(layer.split()) for layer in reversed(drawn)] == list(LAYERS)


def test_what_shows_results_loads_no_emulator() -> None:
    wrong = [
        f"{module} imports {other}"
        for module in MODULES
        if room(module) in ("reports", "render", "gate")
        for other in graph().get(module, ())
        if room(other) == "emulate"
    ]
    assert not wrong, "records of results import nothing that makes them, but ask the table of opcodes"


def test_the_record_of_counts_loads_no_emulator() -> None:
    reached, waiting = set[str](), ["ncu_swizzle.emulate.counts"]
    while waiting:
        reached |= (new := graph()[waiting.pop()] - reached)
        waiting += new
    assert {module for module in reached if room(module) == "emulate"} <= {"ncu_swizzle.emulate.events"}
