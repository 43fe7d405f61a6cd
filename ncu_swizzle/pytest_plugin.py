"""The pytest plugin: the fixtures `ncu_profile` and `ncu_run`, the marker `gpu`, and reports for failed assertions.

It is installed with ncu-swizzle and loaded in every pytest run, so it imports what it needs only when a test uses it.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Generator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from ncu_swizzle.commands.answers import Profile

MARKER = "gpu"
SECTION = "ncu-swizzle"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("ncu-swizzle", "shared-memory bank conflicts (ncu-swizzle)")
    group.addoption(
        "--ncu-swizzle-engine",
        default="auto",
        metavar="ENGINE",
        help="where ncu_profile gets its values: ncu, recorded, emulated; auto: ncu, or the test is skipped without it",
    )
    group.addoption(
        "--ncu-swizzle-out",
        type=Path,
        metavar="FOLDER",
        help="write an HTML report of each profile that failed an assertion",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", f"{MARKER}: needs a GPU that ncu can profile; skipped otherwise, with the reason"
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    marked = [item for item in items if item.get_closest_marker(MARKER)]
    if marked and _marker_is_ours(config) and (reason := _lacking()):
        for item in marked:
            item.add_marker(pytest.mark.skip(reason=f"needs a GPU: {reason}"))


def _marker_is_ours(config: pytest.Config) -> bool:
    """Return whether only this plugin registered the marker: a suite's own `gpu` keeps its meaning."""
    lines: list[str] = config.getini("markers")
    return sum(line.split(":")[0].split("(")[0].strip() == MARKER for line in lines) == 1


def _lacking() -> str:
    """Return why nothing can be measured here; empty if it can."""
    from ncu_swizzle.engines import profiles, settings

    engine = profiles.choose_engine(settings.Request())
    return "" if engine.measures else engine.reason or "nothing can be measured here"


@pytest.fixture(scope="session")
def ncu_profile(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Profile]:
    """Return a function from a kernel, its source or a report to its profile, made once per session.

    ``ncu_profile("kernel2", problem={"seq": 1024})`` takes the keywords of `ncu_swizzle.profile`. It skips the test
    if nothing can be measured, unless an engine is named in the call or with --ncu-swizzle-engine.
    """
    default = request.config.getoption("--ncu-swizzle-engine")
    # Workers of pytest-xdist share the parent of their own folders, and so each other's profiles.
    base = tmp_path_factory.getbasetemp()
    shared = (base.parent if hasattr(request.config, "workerinput") else base) / "ncu-swizzle"
    profiles: dict[str, Profile] = {}

    from ncu_swizzle.base import cache
    from ncu_swizzle.kernels.family import is_kernel_file

    def get(entry: str | Path | Callable[..., Any], /, **how: Any) -> Profile:
        __tracebackhide__ = True
        if isinstance(entry, str | Path) and Path(entry).exists() and not is_kernel_file(str(entry)):
            return _only(Path(entry))
        how = {"baseline": "none", "reference": "none", "engine": default, **how}
        if how["engine"] == "auto":
            if reason := _lacking():
                pytest.skip(f"needs a GPU: {reason}")
            how["engine"] = "ncu"
        key = _key(entry, how)
        if key not in profiles:
            folder = shared / cache.sha256_of_texts(key)[:16]
            profiles[key] = _once(entry, folder, how)
        return profiles[key]

    return get


@pytest.fixture(scope="session")
def ncu_run() -> Callable[..., dict[str, Any]]:
    """Return `ncu_swizzle.run`, a kernel's outputs without a GPU; it skips the test where nothing can be compiled."""
    from ncu_swizzle.base.errors import EnvironmentLacking
    from ncu_swizzle.commands import api

    def run(kernel: str | Path, inputs: Mapping[str, Any] | None = None, **how: Any) -> dict[str, Any]:
        __tracebackhide__ = True
        try:
            return api.run(kernel, inputs, **how)
        except EnvironmentLacking as error:
            pytest.skip(str(error))

    return run


def _key(entry: str | Path | Callable[..., Any], how: dict[str, Any]) -> str:
    """Return what profiles are the same by: a live tensor, or a function as reference, is only like itself."""
    from ncu_swizzle.commands import api

    named = api.entry_of(entry) if api.is_function(entry) else str(entry)
    return json.dumps([named, how], sort_keys=True, default=lambda value: f"{os.getpid()} {id(value)}")


def _only(path: Path) -> Profile:
    """Return the only profile of a file, or that of the kernel that a run folder was made for."""
    from ncu_swizzle.base.errors import UsageError
    from ncu_swizzle.commands import api
    from ncu_swizzle.commands.answers import Profile
    from ncu_swizzle.reports import run_folder

    if path.is_dir():
        return Profile.of(run_folder.load(path).subjects[0])
    profiles = api.read(path)
    if len(profiles) > 1:
        raise UsageError(f"{path} holds {len(profiles)} kernels", f"pick one: ncu_swizzle.read({str(path)!r})[…]")
    return profiles[0]


def _once(kernel: str | Path | Callable[..., Any], folder: Path, how: dict[str, Any]) -> Profile:
    """Profile into the folder, or return the profile that another worker left there."""
    from ncu_swizzle.base.files import locked
    from ncu_swizzle.commands import api
    from ncu_swizzle.commands.answers import Profile
    from ncu_swizzle.reports import run_folder

    folder.parent.mkdir(parents=True, exist_ok=True)
    with locked(folder.parent):  # two profiles at once would disturb each other's durations
        if (folder / run_folder.MANIFEST).is_file():
            return Profile.of(run_folder.load(folder).subjects[0])
        return api.profile(kernel, **how, export=folder).profile


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    folder = item.config.getoption("--ncu-swizzle-out")
    testing = sys.modules.get("ncu_swizzle.commands.answers")  # if it was never imported, none of its assertions failed
    if folder and testing and call.excinfo and isinstance(call.excinfo.value, testing.ConflictError):
        report.sections.append((SECTION, _keep(folder, item.nodeid, call.excinfo.value.profile)))
    return report


def _keep(folder: Path, test: str, profile: Profile) -> str:
    """Write the report of a profile that failed a test; return a line that names the file."""
    from ncu_swizzle.base import cache
    from ncu_swizzle.base.errors import NotWritable
    from ncu_swizzle.base.files import slug
    from ncu_swizzle.base.texts import one_line
    from ncu_swizzle.commands.answers import Profile

    file = folder / f"{slug(test.rpartition('/')[2])}-{cache.sha256_of_texts(test)[:8]}.html"
    try:
        Profile.of(profile).to_html(file)
    except NotWritable as error:
        return one_line(str(error))
    return one_line(f"report: {file}")
