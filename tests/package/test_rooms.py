"""The tests' own order: each in a room, none importing another, fixtures in conftest files."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.support.places import DATA, ROOT

TESTS = ROOT / "tests"
MODULES = {file: ast.parse(file.read_text(encoding="utf-8")) for file in sorted(TESTS.rglob("*.py"))
           if DATA not in file.parents}  # fmt: skip


def imported(tree: ast.Module) -> Iterator[str]:
    """Yield the dotted names that a module imports, wherever in it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{'.' * node.level}{node.module or ''}.{name.name}" for name in node.names)


def fixtures(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            makers = [one.func if isinstance(one, ast.Call) else one for one in node.decorator_list]
            yield from (node.name for maker in makers if ast.unparse(maker).split(".")[-1] == "fixture")


def test_no_test_module_is_imported() -> None:
    wrong = [
        f"{file.relative_to(ROOT)}: {name}"
        for file, tree in MODULES.items()
        for name in imported(tree)
        if any(part.startswith(("test_", ".")) or part == "conftest" for part in name.split("."))
    ]
    assert not wrong, "what tests share belongs in tests/support: " + ", ".join(wrong)


def test_every_test_module_lies_in_a_room() -> None:
    assert [file.name for file in TESTS.glob("test_*.py")] == []
    for file in MODULES:
        assert (file.parent / "__init__.py").is_file(), f"{file.parent} is not a package"
        assert not (file.name.startswith("test_") and file.parent.name == "support"), file


def test_fixtures_are_in_conftest_files() -> None:
    found = {file: list(fixtures(tree)) for file, tree in MODULES.items()}
    assert found[TESTS / "conftest.py"], "this test finds fixtures"
    wrong = {
        str(file.relative_to(ROOT)): names for file, names in found.items() if names and file.name != "conftest.py"
    }
    assert not wrong
