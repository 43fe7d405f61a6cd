"""What the tests share: the recordings from the H100, read once."""

from __future__ import annotations

import contextlib
import fcntl
import gc
import importlib
import os
import resource
import signal
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import pytest

from ncu_swizzle.__main__ import GARBAGE
from ncu_swizzle.base import cache as cache_
from ncu_swizzle.base.errors import NcuSwizzleError
from tests.support.leftovers import Leftovers
from tests.support.places import RECORDINGS, ROOT

if TYPE_CHECKING:  # what takes long to load is imported where it is used: the process that starts workers needs none
    from ncu_swizzle.reports.model import Profile
    from tests.support.chromium import Browser

pytest_plugins = ("pytester",)
# What takes long to make and is made once, in one worker: groups of tests, by their fixtures.
SHARED = {"browser": "page", "html": "page", "shown": "shown", "recordings": "stress", "nvidia": "nvidia"}

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # so a shell starts what it puts in the background
    signal.signal(signal.SIGINT, signal.default_int_handler)
# Some tests have a program crash; where core dumps are on, it would leave one in its folder.
resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


def pytest_configure(config: pytest.Config) -> None:
    """Keep what is compiled and disassembled for later runs, and bytecode, apart from the user's own cache."""
    gc.set_threshold(GARBAGE)
    os.environ.setdefault("NCU_SWIZZLE_JOBS", "1")  # tests run side by side, and what is kept is found in this process
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Leftovers(ROOT))
    cache = getattr(config, "cache", None)  # its plugin can be switched off
    if cache is not None:
        os.environ["XDG_CACHE_HOME"] = str(cache.mkdir("xdg"))
        # The processes that tests start would each compile the package again: about two seconds of each.
        os.environ["PYTHONDONTWRITEBYTECODE"] = ""
        os.environ.setdefault("PYTHONPYCACHEPREFIX", str(cache.mkdir("bytecode")))
    if not config.getoption("numprocesses", None):  # a worker, or a run without workers
        from hypothesis import settings

        from tests.support import kept

        # A run fails because of the code, not by chance or because the machine is busy.
        settings.register_profile("same", derandomize=True, deadline=None)
        settings.load_profile("same")
        kept.install()


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish() -> None:
    """Look once for what was never closed; pytest would five times, and Python twice more as it ends."""
    gc.collect()
    gc.freeze()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give a test that takes a session those of its room."""
    if "session" in metafunc.fixturenames:
        from tests.support.sessions import sessions

        metafunc.parametrize("session", sessions(metafunc.module.__name__.split(".")[1]))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Say which group tests are of, before pytest-xdist asks for it."""
    for item in items:
        for group in {SHARED[name] for name in SHARED.keys() & set(getattr(item, "fixturenames", ()))}:
            item.add_marker(pytest.mark.xdist_group(group))


@pytest.fixture(scope="session", autouse=True)
def _answers_kept(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Ask NVIDIA's reader of all recordings at once; its answers are kept, and one process each takes half a second."""
    asked = cache_.folder() / "recordings-asked"
    asked.parent.mkdir(parents=True, exist_ok=True)
    with asked.open("a+", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # the other workers wait for the first
        if not asked.stat().st_size:
            from ncu_swizzle.engines import reader
            from tests.support.reports import join

            together = tmp_path_factory.mktemp("recordings") / "all.ncu-rep"
            together.write_bytes(join(sorted(RECORDINGS.glob("*/*.ncu-rep"))))
            with contextlib.suppress(NcuSwizzleError):  # without the reader, the tests that need it say so
                reader.read(together)
            file.write("asked\n")


@pytest.fixture
def real_tools() -> Iterator[None]:
    """Let nvcc, ptxas and nvdisasm run, whatever is kept of what they make."""
    from tests.support import kept

    kept.uninstall()
    yield
    kept.install()


@pytest.fixture(scope="session")
def recorded(
    recorded_file: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Profile]:
    """Return a function that reads a recording by the kernel's name, once for all workers of a test run."""
    from ncu_swizzle.engines import reader
    from ncu_swizzle.reports.model import Profile

    shared = tmp_path_factory.getbasetemp().parent  # each worker's own folder lies in it

    @cache
    def read(name: str) -> Profile:
        saved = shared / f"{name}.profile.json"
        if saved.is_file():
            return Profile.from_json(saved.read_text(encoding="utf-8"))
        (profile,) = reader.read(recorded_file(name))
        if "PYTEST_XDIST_WORKER" in os.environ:  # without workers the folder outlives the run
            profile.save(saved)
        return profile

    return read


@pytest.fixture(scope="session")
def recorded_file() -> Callable[[str], Path]:
    """Return a function that finds a recorded .ncu-rep by the kernel's name."""
    from ncu_swizzle.kernels import catalog

    return lambda name: RECORDINGS / catalog.shipped().named(name)[0].name / f"{name}.ncu-rep"


@pytest.fixture(scope="session")
def bench() -> Iterator[Callable[[str], ModuleType]]:
    """Return a function that imports a program of bench/, by its folder and name."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT)
        yield lambda name: importlib.import_module(f"bench.{name}")


@pytest.fixture
def report_file(recorded_file: Callable[[str], Path]) -> Path:
    """Return the .ncu-rep of kernel2, as recorded; copy it before changing it."""
    return recorded_file("kernel2")


@pytest.fixture(scope="session")
def _chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    pytest.importorskip("selenium", reason="needs selenium")
    from tests.support.chromium import chromium

    with chromium(tmp_path_factory.mktemp("chromium")) as started:
        yield started


@pytest.fixture
def browser(_chromium: Browser) -> Browser:
    """Return the one Chromium of the test run, as it was when it started."""
    _chromium.reset()
    return _chromium
