"""How directly `profile kernel2` passes through the package: ``python3 bench/figures/passage.py [CHECKOUT …]``.

The command runs with the recorded engine and every call from one of the package's modules into another one is noted.
It prints the modules and rooms that take part (a module on the package's top floor is a room of its own), the pairs of
rooms of which one calls the other, how many of these climb (the called room calls back, perhaps through others), how
often a name, a problem and an engine were resolved, and, for the whole package, the imports that climb, which close a
circle of modules. Nothing is timed: the counts are the same every time. Other checkouts are compared with this one.
"""

from __future__ import annotations

import ast
import json
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

HERE = Path(__file__).resolve().parents[2]
PACKAGE = "ncu_swizzle"
FOLLOWED = f"""
import json, sys
sys.path.insert(0, sys.argv[1])
from {PACKAGE} import cli
calls, resolved = {{}}, {{}}

def module(frame):
    while frame and not frame.f_globals.get("__name__", "").startswith("{PACKAGE}."):
        frame = frame.f_back
    return frame and frame.f_globals["__name__"]

def follow(frame, event, argument):
    code = frame.f_code
    if event != "call" or code.co_name == "<module>" or "__qualname__" in code.co_names[:2]:  # bodies of classes
        return
    callee = frame.f_globals.get("__name__", "")
    caller = module(frame.f_back)
    if callee.startswith("{PACKAGE}.") and caller and caller != callee:
        calls[f"{{caller}} {{callee}}"] = True
    if code.co_qualname in ("Catalog.find", "Family.problem", "choose_engine") and callee.startswith("{PACKAGE}"):
        resolved[code.co_qualname] = resolved.get(code.co_qualname, 0) + 1

sys.argv = ["ncu-swizzle", "profile", "kernel2", "--engine", "recorded", "--json", "-", "-o", sys.argv[2]]
sys.setprofile(follow)
try:
    cli.main()
finally:
    sys.setprofile(None)
    print(json.dumps([list(calls), resolved]), file=sys.stderr)
"""


def calls(checkout: Path) -> tuple[list[tuple[str, str]], Counter[str]]:
    """Return the pairs of modules, caller and callee, and how often something was resolved."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-c", FOLLOWED, str(checkout), f"{folder}/run"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{checkout}: {done.stderr[-500:]}")
    pairs, resolved = json.loads(done.stderr.splitlines()[-1])
    return [tuple(pair.split()) for pair in pairs], Counter(resolved)


def imports(checkout: Path) -> dict[str, set[str]]:
    """Return which modules of the package each module imports, wherever the import stands."""
    files = {".".join(file.relative_to(checkout).with_suffix("").parts).removesuffix(".__init__"): file
             for file in sorted((checkout / PACKAGE).rglob("*.py"))}  # fmt: skip
    graph: dict[str, set[str]] = {module: set() for module in files}
    for module, file in files.items():
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import | ast.ImportFrom) else []
            base = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
            for name in names:
                other = base + name if base + name in files else base.rstrip(".")
                if other in files and other not in (module, PACKAGE):
                    graph[module].add(other)
    return graph


def climbs(graph: dict[str, set[str]]) -> int:
    """Return how many edges, imports or calls, lead to a module that leads back."""
    return sum(module in _reached(graph, other) for module, others in graph.items() for other in others)


def _reached(graph: dict[str, set[str]], module: str) -> set[str]:
    seen: set[str] = set()
    waiting = [module]
    while waiting:
        new = graph[waiting.pop()] - seen
        seen |= new
        waiting += new
    return seen


def room(module: str) -> str:
    return module.split(".")[1]


def main() -> None:
    heads = "modules  rooms  pairs of rooms  calls that climb  name, problem, engine  imports that climb"
    print(f"{'checkout':16}  {heads}")
    for checkout in [*map(Path, sys.argv[1:]), HERE]:
        pairs, resolved = calls(checkout.resolve())
        modules = {module for pair in pairs for module in pair}
        rooms = {(room(caller), room(callee)) for caller, callee in pairs if room(caller) != room(callee)}
        called: dict[str, set[str]] = {name: set() for name in map(room, modules)}
        for caller, callee in rooms:
            called[caller].add(callee)
        counts = ", ".join(str(resolved[name]) for name in ("Catalog.find", "Family.problem", "choose_engine"))
        name = "here" if checkout == HERE else checkout.name
        sizes = (
            f"{len(modules):7}  {len(set(map(room, modules))):5}  {len(rooms):14}  {climbs(called):16}  {counts:>21}"
        )
        print(f"{name:18}  {sizes}  {climbs(imports(checkout.resolve())):18}")


if __name__ == "__main__":
    main()
