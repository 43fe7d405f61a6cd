"""``ncu-swizzle doctor``: what is examined, a status per check, the diagnosis, and how it is printed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path

from rich.console import Console

from ncu_swizzle.base.errors import EnvironmentLacking, NcuSwizzleError
from ncu_swizzle.base.texts import in_json
from ncu_swizzle.base.unfinished import scratch
from ncu_swizzle.engines import machine, measured
from ncu_swizzle.engines.machine import OLDEST_CHECKED, Installed, System, Version
from ncu_swizzle.engines.ncu import without_counters
from ncu_swizzle.engines.settings import Context, Options, Request
from ncu_swizzle.kernels import catalog
from ncu_swizzle.kernels.family import Target
from ncu_swizzle.kernels.toolchain import ARCH, NVCC, NVDISASM, Refused, Toolchain, nvcc_release
from ncu_swizzle.render.listing import PlainTable, table_line
from ncu_swizzle.reports.options import NCU

# The finding of each check, and the diagnosis that they add up to.

SCHEMA = 1


class Status(StrEnum):
    """`bad` prevents measuring (or computing); `doubtful` may prevent it, or only degrades it."""

    good = "good"
    doubtful = "doubtful"
    bad = "bad"


@dataclass(frozen=True, kw_only=True)
class HealthCheck:
    """One finding: what was checked, what was found, and what to type if something has to be done.

    The fields are the keys of the JSON output.
    """

    name: str
    outcome: Status
    said: str
    cure: str = ""


@dataclass(frozen=True)
class Diagnosis:
    """All findings on measuring, and those on computing without a GPU, each in the order of the checks."""

    checks: tuple[HealthCheck, ...]
    computing: tuple[HealthCheck, ...] = ()  # empty: not examined

    @property
    def able(self) -> bool:
        """Whether this machine can measure."""
        return not self.obstacles

    @property
    def computes(self) -> bool:
        """Whether the emulated engine works here."""
        return bool(self.computing) and not _bad(self.computing)

    @property
    def obstacles(self) -> tuple[HealthCheck, ...]:
        """What prevents measuring."""
        return _bad(self.checks)

    @property
    def computing_obstacles(self) -> tuple[HealthCheck, ...]:
        """What prevents computing."""
        return _bad(self.computing)

    def to_json(self) -> str:
        content = {
            "schema": SCHEMA,
            "able": self.able,
            "checks": [asdict(check) for check in self.checks],
            "computes": self.computes,
            "computing": [asdict(check) for check in self.computing],
        }
        return in_json(content, indent=1)


def _bad(checks: tuple[HealthCheck, ...]) -> tuple[HealthCheck, ...]:
    return tuple(check for check in checks if check.outcome is Status.bad)


def good(name: str, said: str) -> HealthCheck:
    return HealthCheck(name=name, outcome=Status.good, said=said)


def doubtful(name: str, said: str, cure: str = "") -> HealthCheck:
    return HealthCheck(name=name, outcome=Status.doubtful, said=said, cure=cure)


def bad(name: str, said: str, cure: str) -> HealthCheck:
    return HealthCheck(name=name, outcome=Status.bad, said=said, cure=cure)


MARKS = {Status.good: ("✓", "green"), Status.doubtful: ("!", "yellow"), Status.bad: ("✗", "bold red")}


def show(diagnosis: Diagnosis, console: Console) -> None:
    """Print a line per check, the fix below it, and a verdict each on measuring and on computing."""
    console.print("To measure, with ncu on a GPU:")
    _show_checks(diagnosis.checks, console)
    if diagnosis.computing:
        console.print()
        console.print("To compute wavefronts, with --engine emulated:")
        _show_checks(diagnosis.computing, console)
    console.print()
    _conclude("measure", diagnosis.obstacles, console)
    if diagnosis.computing:
        _conclude("compute wavefronts", diagnosis.computing_obstacles, console)
    if diagnosis.obstacles and diagnosis.computes:
        console.print("Without a GPU: ncu-swizzle profile kernel2 --engine emulated", soft_wrap=True)
    elif diagnosis.obstacles:
        console.print("Recordings can still be shown: ncu-swizzle profile kernel2 --engine recorded", soft_wrap=True)


def _show_checks(checks: Sequence[HealthCheck], console: Console) -> None:
    table = PlainTable(show_header=False)
    table.add_column()
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for check in checks:
        mark, style = MARKS[check.outcome]
        table.add_row(table_line((mark, style)), check.name, check.said)
        for number, line in enumerate(check.cure.splitlines()):
            table.add_row("", "", table_line(line.strip() if number else f"try: {line}", style="dim"))
    console.print(table)


def _conclude(what: str, obstacles: Sequence[HealthCheck], console: Console) -> None:
    names = ", ".join(check.name for check in obstacles)
    conclusion = f"This machine cannot {what}: {names}." if obstacles else f"This machine can {what}."
    console.print(table_line(conclusion, style="bold red" if obstacles else "bold"))


# Checks of what the emulated engine needs: CUDA's compiler, its disassembler, and a host compiler. No GPU.

INSTALL = "pip install 'ncu-swizzle[nvcc]'"
ANOTHER = f"{INSTALL}, or name a working one: ncu-swizzle doctor --nvcc PATH"
HOST = "host compiler"
ROLES = {NVCC: "compiler", NVDISASM: "disassembler"}
TRIAL_KERNEL = "__global__ void nothing() {}\n"


def computing_checks(toolchain: Toolchain) -> Iterator[HealthCheck]:
    """Yield whether the tools are there, and, if they are, whether they compile and disassemble a kernel."""
    tools = [_tool(toolchain, tool) for tool in ROLES]
    yield from tools
    if all(check.outcome is Status.good for check in tools):
        yield _tried(toolchain)


def _tool(toolchain: Toolchain, tool: str) -> HealthCheck:
    try:
        return good(ROLES[tool], f"{toolchain.find(tool)}, CUDA {toolchain.version(tool)}")
    except EnvironmentLacking as error:
        return bad(ROLES[tool], str(error), error.hint)
    except NcuSwizzleError as error:
        return bad(ROLES[tool], f"{tool} does not work: {error}", ANOTHER)


def _tried(toolchain: Toolchain) -> HealthCheck:
    """Return whether a kernel can be compiled and disassembled; nvcc needs the host compiler for its preprocessor."""
    try:
        toolchain.disassemble(toolchain.compile(TRIAL_KERNEL, (), ARCH, ()), "kernel.cubin")
    except EnvironmentLacking as error:
        return bad(HOST, str(error), error.hint)
    except (Refused, NcuSwizzleError, OSError) as error:  # OSError: nvcc wrote nothing
        return bad("trial kernel", f"it could not be compiled and disassembled for {ARCH}: {error}", ANOTHER)
    return good(HOST, f"a kernel was compiled for {ARCH} and disassembled")


# Checks of the driver, the GPU, and the permission to read its counters.

OLDEST = (7, 0)  # the lowest compute capability that Nsight Compute still profiles: Volta
OURS = (8, 0)  # what the catalogue's kernels require


def driver(system: System) -> HealthCheck:
    """Return which driver is loaded."""
    text = system.read("/proc/driver/nvidia/version") or ""
    version = re.search(r"\b(\d+\.\d+(?:\.\d+)?)\b", text)
    if version:
        return good("driver", f"NVIDIA driver {version[1]}")
    if reason := system.gpu_absent():
        return bad("driver", reason, "install the NVIDIA driver; in a container, start it with --gpus all")
    return doubtful("driver", "a driver is loaded, but /proc/driver/nvidia/version does not show its version")


def gpu(system: System) -> Iterator[HealthCheck]:
    """Yield each GPU, and whether it can be profiled."""
    if reason := system.gpu_absent():
        yield bad("GPU", reason, "nvidia-smi -L shows what the driver sees; in a container, start it with --gpus all")
        return
    for number, (name, capability) in enumerate(system.gpus()):
        device = f"{name}, compute capability {'.'.join(map(str, capability))}"
        if number == 0 and capability < OLDEST:
            yield bad(
                "GPU",
                f"{device}: Nsight Compute no longer supports it",
                "use a GPU of compute capability 7.0 or higher",
            )
        elif number == 0 and capability < OURS:
            yield doubtful("GPU", f"{device}: the catalogue's kernels need 8.0", "profile your own programs")
        else:
            yield good("GPU", device if number == 0 else f"{device} (not used: the first GPU is)")


def counters(system: System) -> HealthCheck:
    """Return whether this user may read the performance counters."""
    cure = without_counters(["./app"])
    params = system.read("/proc/driver/nvidia/params") or ""
    restricted = re.search(r"^RmProfilingAdminOnly:\s*(\d)", params, re.MULTILINE)
    if restricted is None:
        return doubtful("counters", "/proc/driver/nvidia/params does not show who may read the counters", cure)
    if restricted[1] == "0":
        return good("counters", "all users may read the performance counters")
    if system.privileged:
        return good("counters", "only privileged users may read the performance counters, and this user is privileged")
    return bad("counters", "only privileged users may read the performance counters", cure)


# Checks of the programs and packages that measuring needs.

ANOTHER_NCU = "to use another one: ncu-swizzle doctor --ncu PATH"
NVCC_VERSION = ("nvcc", "--version")


def questions(system: System, given: Path | None) -> Iterator[Sequence[str]]:
    """Yield the commands that these checks run."""
    yield NVCC_VERSION
    for program in [given] if given else [candidate.path for candidate in machine.candidates(system)]:
        if system.executable(program):
            yield [str(program), machine.ASK]


def ncu_check(system: System, given: Path | None) -> Iterator[HealthCheck]:
    """Yield which ncu is used, which others are installed, and whether its reports can be read here."""
    if given is not None and not system.executable(given):
        yield bad("ncu", f"{given} is not an executable", "give the path of ncu itself to --ncu")
        return
    named = [Installed(given, "--ncu", machine.version(system, given))] if given else []
    all_ncu = [*named, *machine.by_age(system, list(machine.candidates(system)))]
    if not all_ncu:
        yield bad(
            "ncu",
            "not found on PATH, in CUDA_HOME, /usr/local/cuda or /opt/nvidia/nsight-compute",
            "install Nsight Compute (apt-get install nsight-compute-2025.3.1), or name it with --ncu PATH",
        )
        yield reader(system, ())
        return
    used, *others = all_ncu
    program = f"{used.path}, {used.version_text} ({used.origin})"
    ran = system.run([str(used.path), machine.ASK])  # even if its folder names the version: it may hang
    if ran and ran.silence:
        yield bad("ncu", f"{program} {ran.silence}", f"{used.path} --version shows whether it hangs; {ANOTHER_NCU}")
    elif not used.version:
        yield doubtful("ncu", f"{program}: it does not report its version", f"{used.path} --version shows why")
    elif used.version < OLDEST_CHECKED:
        yield doubtful("ncu", f"{program}: older than any version tested", "use a newer one: --ncu PATH")
    else:
        yield good("ncu", program)
    for other in others:
        yield good("other ncu", f"{other.path}, {other.version_text} ({other.origin})")
    yield reader(system, used.version)


def reader(system: System, version: Version) -> HealthCheck:
    """Return whether the package that reads reports supports those of this ncu version."""
    text = system.package_version("ncu-report")
    if not text and system.has_module("ncu_report"):
        return good("ncu-report", "the module from ncu's own extras/python")
    if not text:
        return bad("ncu-report", "the package that reads reports is not installed", "pip install ncu-report")
    own = machine.parse_version(match[0]) if (match := re.match(r"\d+(?:\.\d+)*", text)) else ()
    if version[:2] > own[:2]:
        return doubtful(
            "ncu-report",
            f"{text} is older than ncu {'.'.join(map(str, version))}: it may be unable to read its reports",
            "pip install --upgrade ncu-report",
        )
    return good("ncu-report", f"{text}, not older than ncu" if version else text)


def nvcc(system: System) -> HealthCheck:
    """Return whether kernels can be compiled."""
    ran = system.run(NVCC_VERSION)
    if ran and ran.silence:
        return bad("nvcc", f"the CUDA compiler {ran.silence}", "nvcc --version shows whether it hangs; type -a nvcc")
    if ran is None or ran.status:
        cure = "export PATH=/usr/local/cuda/bin:$PATH"
        if not system.exists("/usr/local/cuda/bin/nvcc"):
            cure = "install the CUDA toolkit, and put its bin folder on PATH"
        return bad("nvcc", "the CUDA compiler cannot be run", cure)
    release = nvcc_release(ran.output)
    return good("nvcc", f"CUDA {release}" if release else "installed, version unknown")


def pycuda(system: System) -> HealthCheck:
    """Return whether kernels can be launched."""
    if not system.has_module("pycuda"):
        return bad("PyCUDA", "not installed", "pip install 'ncu-swizzle[gpu]' (needs the CUDA toolkit)")
    return good("PyCUDA", f"{system.package_version('pycuda') or 'installed'}")


KERNEL = "transpose-plain"  # compiles fast and runs on every GPU that the catalogue supports
ONE_PASS = "sm__cycles_elapsed.max"  # a hardware counter: it needs the same permission as all others
TRIAL_S = 180.0

Trial = Callable[[Path | None], HealthCheck]


def examine(
    system: System, ncu: Path | None = None, trial: Trial | None = None, toolchain: Toolchain | None = None
) -> Diagnosis:
    """Return the findings of all checks; the trial comes last, and only if nothing else prevents measuring.

    Without a toolchain, computing is not examined.
    """
    system.ask_ahead(questions(system, ncu))
    checks = list(_checks(system, ncu))
    if trial is not None and Diagnosis(tuple(checks)).able:
        checks.append(trial(ncu))
    return Diagnosis(tuple(checks), tuple(computing_checks(toolchain)) if toolchain else ())


def _checks(system: System, ncu: Path | None) -> Iterator[HealthCheck]:
    yield driver(system)
    yield from gpu(system)
    yield from ncu_check(system, ncu)
    yield counters(system)
    yield nvcc(system)
    yield pycuda(system)


def profile_once(ncu: Path | None) -> HealthCheck:
    """Actually profile the catalogue's smallest kernel, in one pass."""
    target = catalog.shipped().target(KERNEL)
    target = target.sized({parameter.name: parameter.smallest for parameter in target.family.parameters})
    request = Request(engine=NCU, problem=target.problem, options=Options(metrics=ONE_PASS), ncu=ncu, timeout_s=TRIAL_S)
    try:
        return _trial(target, request)
    except NcuSwizzleError as error:
        return bad("trial", f"profiling {KERNEL} failed: {error}", error.hint)


def _trial(target: Target, request: Request) -> HealthCheck:
    with scratch() as folder:
        profile = measured.measure(target, Context(request=request, folder=folder))
    cycles = profile.number(ONE_PASS)
    if not cycles:
        return bad("trial", f"{target.name} was profiled, but {ONE_PASS} has no value", "ncu --query-metrics")
    return good("trial", f"{target.name} was built, checked and profiled in one pass: {cycles:,.0f} cycles")
