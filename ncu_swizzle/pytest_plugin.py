"""The pytest plugin: the fixture `ncu_profile`, the marker `gpu`, and reports of what failed.

Installed with ncu-swizzle and loaded by pytest in every run, so it imports what it needs when a test asks for it.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import sys
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from ncu_swizzle.answers import Profile

MARKER = "gpu"
SECTION = "ncu-swizzle"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("ncu-swizzle", "shared-memory bank conflicts (ncu-swizzle)")
    group.addoption(
        "--ncu-swizzle-engine",
        default="auto",
        metavar="ENGINE",
        help="where ncu_profile has figures from: ncu, recorded, emulated; auto: ncu, and tests are skipped elsewhere",
    )
    group.addoption(
        "--ncu-swizzle-out",
        type=Path,
        metavar="FOLDER",
        help="keep an HTML report of each profile that an assertion failed on",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", f"{MARKER}: needs a GPU that ncu can measure on; skipped with a reason elsewhere"
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    marked = [item for item in items if item.get_closest_marker(MARKER)]
    if marked and _marker_is_ours(config) and (reason := _lacking()):
        for item in marked:
            item.add_marker(pytest.mark.skip(reason=f"needs a GPU: {reason}"))


def _marker_is_ours(config: pytest.Config) -> bool:
    """Tell whether no one else registered the marker: a suite that has its own `gpu` keeps its meaning."""
    lines: list[str] = config.getini("markers")
    return sum(line.split(":")[0].split("(")[0].strip() == MARKER for line in lines) == 1


def _lacking() -> str:
    """Return why nothing can be measured here; empty where it can."""
    from ncu_swizzle.engines import choice, context

    engine = choice.choose_engine(context.Request())
    return "" if engine.name == "ncu" else engine.reason or "nothing can be measured here"


@pytest.fixture(scope="session")
def ncu_profile(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Profile]:
    """Return a function from a kernel's name, its source, or a report to its profile, once per session.

    ``ncu_profile("kernel2", problem={"seq": 1024})`` takes the keywords of `ncu_swizzle.profile`. It skips the test
    where nothing can be measured, unless an engine is named: there, or with --ncu-swizzle-engine.
    """
    default = request.config.getoption("--ncu-swizzle-engine")
    # Workers of pytest-xdist share the folder above their own, and so what each of them has profiled.
    base = tmp_path_factory.getbasetemp()
    shared = (base.parent if hasattr(request.config, "workerinput") else base) / "ncu-swizzle"
    profiles: dict[str, Profile] = {}

    from ncu_swizzle.catalog.family import FILES

    def get(entry: str | Path, **how: Any) -> Profile:
        __tracebackhide__ = True
        if Path(entry).exists() and Path(entry).suffix not in FILES:
            return _only(Path(entry))
        how = {"baseline": "none", "reference": "none", "engine": default, **how}
        if how["engine"] == "auto":
            if reason := _lacking():
                pytest.skip(f"needs a GPU: {reason}")
            how["engine"] = "ncu"
        key = json.dumps([str(entry), how], sort_keys=True, default=str)
        if key not in profiles:
            folder = shared / hashlib.sha256(key.encode()).hexdigest()[:16]
            profiles[key] = _once(str(entry), folder, how)
        return profiles[key]

    return get


def _only(path: Path) -> Profile:
    """Return the one profile of a file, or that of the kernel that a run was made for."""
    from ncu_swizzle import api
    from ncu_swizzle.answers import Profile
    from ncu_swizzle.errors import UsageError
    from ncu_swizzle.profiles import run_folder

    if path.is_dir():
        return Profile.of(run_folder.load(path).subjects[0])
    profiles = api.read(path)
    if len(profiles) > 1:
        raise UsageError(f"{path} holds {len(profiles)} kernels", f"ncu_swizzle.read({str(path)!r})[…] is one of them")
    return profiles[0]


def _once(kernel: str, folder: Path, how: dict[str, Any]) -> Profile:
    """Profile into the folder, or return what another worker has left there."""
    from ncu_swizzle import api
    from ncu_swizzle.answers import Profile
    from ncu_swizzle.profiles import run_folder

    with _locked(folder.parent):
        if (folder / run_folder.MANIFEST).is_file():
            return Profile.of(run_folder.load(folder).subjects[0])
        return api.profile(kernel, **how, export=folder).profile


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Let one process at a time profile: two at once would disturb each other's times."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    place = item.config.getoption("--ncu-swizzle-out")
    testing = sys.modules.get("ncu_swizzle.testing")  # not imported: then no assertion of its was made
    if place and testing and call.excinfo and isinstance(call.excinfo.value, testing.ConflictError):
        report.sections.append((SECTION, _keep(place, item.nodeid, call.excinfo.value.profile)))
    return report


def _keep(place: Path, test: str, profile: Profile) -> str:
    """Write the report of a profile that a test failed on, and say where."""
    from ncu_swizzle.answers import Profile
    from ncu_swizzle.errors import NotWritable
    from ncu_swizzle.files import slug

    digest = hashlib.sha256(test.encode()).hexdigest()[:8]
    file = place / f"{slug(test.rpartition('/')[2])}-{digest}.html"
    try:
        Profile.of(profile).to_html(file)
    except NotWritable as error:
        return str(error)
    return f"report: {file}"
