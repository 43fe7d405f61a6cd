"""Command lines and what comes of them, written down as at a terminal: tests/data/sessions, explained in its README."""

import contextlib
import json
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from ncu_swizzle.base.errors import NcuSwizzleError
from ncu_swizzle.servers import answer as folders
from ncu_swizzle.servers.__main__ import answer
from ncu_swizzle.servers.answer import Folders
from tests.support.fleets import needs_fleet
from tests.support.marks import NEEDS_ALL, NEEDS_PTXAS, without_gpu
from tests.support.places import DATA, ROOT
from tests.support.process import Done, Typed, environment
from tests.support.python_kernels import NEEDS_CUTE_DSL, NEEDS_CUTILE, NEEDS_NUMBA, NEEDS_TRITON

MARKS = {"all": NEEDS_ALL, "ptxas": NEEDS_PTXAS, "nogpu": without_gpu, "fleet": needs_fleet,
         "triton": NEEDS_TRITON, "numba": NEEDS_NUMBA, "cute_dsl": NEEDS_CUTE_DSL, "cutile": NEEDS_CUTILE,
         "long": pytest.mark.long, "slow": pytest.mark.slow}  # fmt: skip
LONGEST = 4000  # characters of an output in a failure
NAMED = re.compile(r"\{(\w+)\}")
TYPED = re.compile(r"((?:[A-Z_]+=\S* )*)(.*)")  # settings of the environment, and the command line


@dataclass
class Step:
    """A command line, a line for a shell, a call, or a file to write, and the lines that say what comes of it."""

    typed: str
    claims: list[str] = field(default_factory=list)


@dataclass
class Session:
    """Steps in a folder that fixtures prepare."""

    name: str
    fixtures: list[str]
    steps: list[Step] = field(default_factory=list)

    def replay(self, request: pytest.FixtureRequest) -> None:
        """Do every step; fail with everything that is not as it was written down."""
        folder, env = request.getfixturevalue("tmp_path"), dict[str, str]()
        for prepared in map(request.getfixturevalue, self.fixtures):
            folder = prepared if isinstance(prepared, Path) else folder
            env |= prepared if isinstance(prepared, dict) else {}
        typed = Typed(folder, request.getfixturevalue("monkeypatch"), request.getfixturevalue("capsys"))
        done, wrong = Done(0, "", ""), list[str]()
        for step in self.steps:
            if step.typed.startswith("< "):
                file = folder / step.typed[2:]
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text("".join(f"{line}\n" for line in step.claims), encoding="utf-8")
                continue
            hint = done.stderr.partition("try: ncu-swizzle ")[2].partition("\n")[0]
            line, *claims = (text.replace("{folder}", str(folder)) for text in (step.typed, *step.claims))
            if line.startswith("$$ "):
                done = in_shell(line[3:], folder, env)
            elif line.startswith(">> "):
                done = called(line[3:], folder)
            else:
                settings, command = TYPED.fullmatch(line.replace("{try}", hint)).groups()  # type: ignore[union-attr]
                done = typed(command, **{**env, **dict(setting.split("=", 1) for setting in settings.split())})
            status = next((int(claim[1:]) for claim in claims if claim[0] == "="), 0)
            unmet = [claim for claim in claims if not holds(claim, done, folder)]
            hinted = done.returncode not in (2, 3, 4) or "  try: " in done.stderr or done.stderr.startswith("Usage: ")
            if unmet or done.returncode != status or not (hinted or line[:2] == "$$") or "Traceback" in done.stderr:
                printed = (text[:LONGEST] for text in (done.stdout, done.stderr))
                wrong += [f"$ {line}", *unmet, f"ended with {done.returncode}, and printed:", *printed]
        if wrong:
            pytest.fail("\n".join(wrong), pytrace=False)


def test_what_comes_of_it(session: Session, request: pytest.FixtureRequest) -> None:
    """Replay one session; a room's test_sessions.py has it for all of that room, see tests/conftest.py."""
    session.replay(request)


def in_shell(line: str, folder: Path, env: Mapping[str, str]) -> Done:
    """Run a line in bash, where ncu-swizzle is a process of its own."""
    ours = f'ncu-swizzle() {{ "{sys.executable}" -m ncu_swizzle "$@"; }}; {line}'
    run = subprocess.run(["bash", "-ec", ours], cwd=folder, env=environment(**env), capture_output=True, check=False)
    return Done(run.returncode, run.stdout.decode(errors="replace"), run.stderr.decode(errors="replace"))


def called(line: str, folder: Path) -> Done:
    """Make a call of an agent that may read the folder: a tool and its arguments; return its answer as JSON."""
    tool, _, arguments = line.partition(" ")
    request = {"call": tool, "arguments": json.loads(arguments), "folders": Folders((folder,)).as_json()}
    with contextlib.chdir(folder):
        try:
            return Done(0, json.dumps(answer({**request, "timeout_s": 60}).as_json()), "")
        except NcuSwizzleError as error:
            return Done(error.exit_code, "", f"error: {error}\n  try: {folders.hint(error)}\n")


def holds(claim: str, done: Done, folder: Path) -> bool:
    """Return whether a line of a session is true of a command that was run."""
    kind, said = claim[0], claim[1:].strip()
    printed = " ".join(f"{done.stdout}\n{done.stderr}".split())
    times, _, text = said.partition(" ")
    file, _, part = said.partition(" ")
    claims: dict[str, Callable[[], bool]] = {
        "=": lambda: done.returncode == int(said),
        "!": lambda: " ".join(said.split()) not in printed,
        "×": lambda: printed.count(" ".join(text.split())) == int(times),
        ">": lambda: " ".join(said.split()) in " ".join(done.stderr.partition("try: ")[2].split()),
        "≤": lambda: max(map(len, done.stdout.splitlines())) <= int(said),
        "~": lambda: re.search(said, f"{done.stdout}\n{done.stderr}", re.MULTILINE) is not None,
        "+": lambda: any(folder.glob(said)),
        "-": lambda: not any(folder.glob(said)),
        "%": lambda: part in (folder / file).read_text(encoding="utf-8"),
        "@": lambda: json_holds(said, done, folder),
    }
    if claim.startswith(("1>", "2>")):  # nothing else is printed there
        return [done.stdout, done.stderr][int(kind) - 1].strip() == claim[2:].strip()
    return claims.get(kind, lambda: " ".join(claim.split()) in printed)()


def json_holds(said: str, done: Done, folder: Path) -> bool:
    """Return whether the JSON of a file, or of stdout, has the value that is said at the path that is said."""
    file, path, value = said.split(maxsplit=2)
    text = done.stdout if file == "-" else (folder / file).read_text(encoding="utf-8")
    return bool(at(json.loads(text), path.split(".")) == json.loads(value))


def at(content: Any, path: list[str]) -> Any:
    """Return what is at a path of keys and numbers; ``*`` is each element, ``#`` the number of them."""
    if not path or path == [""]:
        return content
    key, *rest = path
    if key == "*":
        return [at(each, rest) for each in content]
    if key == "#":
        return len(content)
    return at(content[int(key)] if isinstance(content, list) else content[key], rest)


def expanded(text: str, names: Mapping[str, str]) -> str:
    return NAMED.sub(lambda found: names.get(found[1], found[0]), text)


def sessions(room: str) -> list[Any]:
    """Return the sessions of a room as pytest's parameters."""
    written: list[Any] = []
    for file in sorted((DATA / "sessions" / room).glob("*.txt")):
        names = {"root": str(ROOT)}
        for line in file.read_text(encoding="utf-8").splitlines():
            if line.startswith("let "):
                name, _, value = line[4:].partition(" = ")
                names[name] = expanded(value, names)
            elif line.startswith("== "):
                title, _, words = line[3:].partition(" | ")
                session = Session(title, [word for word in words.split() if word not in MARKS])
                marks = [MARKS[word] for word in words.split() if word in MARKS]
                written.append(pytest.param(session, id=title, marks=marks))
            elif line.startswith(("$ ", "$$ ", ">> ", "< ")):
                session.steps.append(Step(expanded(line.removeprefix("$ "), names)))
            elif line and not line.startswith("# "):
                session.steps[-1].claims.append(expanded(line, names))
    return written
