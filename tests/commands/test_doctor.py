"""What doctor says of machines that are made up, and of this one."""

import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from ncu_swizzle.commands import doctor
from ncu_swizzle.commands.doctor import Diagnosis, HealthCheck, Status, bad, good
from ncu_swizzle.engines.machine import Ran, System
from ncu_swizzle.kernels import device, toolchain
from tests.support.marks import executable
from tests.support.places import table
from tests.support.process import Typed

FACTS = table("facts/doctor.toml")
H100 = ("NVIDIA H100 80GB HBM3", (9, 0))
NCU = "/opt/nvidia/nsight-compute/2025.3.1/ncu"
OLDER = "/usr/local/cuda/bin/ncu"


WELL: dict[str, Any] = {
    "files": {
        "/proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.159.04  Mon Nov",
        "/proc/driver/nvidia/params": "RmLogonRC: 1\nRmProfilingAdminOnly: 0\n",
    },
    "programs": {
        f"{OLDER} --version": Ran(0, "Version 2024.3.2.0 (build 1)"),
        "nvcc --version": Ran(0, "Cuda compilation tools, release 13.0, V13.0.88"),
    },
    "ncus": (NCU, OLDER), "packages": {"ncu-report": "2026.3.1", "pycuda": "2025.1"}, "no_gpu": "", "cards": (H100,),
    "privileged": False,
}  # fmt: skip


class Made(System):
    """The machine where all is well but for the changes; dictionaries are merged, None takes an entry away."""

    environment: Mapping[str, str] = {}  # properties of real ones
    privileged = False

    def __init__(self, **changes: Any) -> None:
        now = {**WELL, **changes}
        for name, value in changes.items():
            if isinstance(value, dict):
                now[name] = {key: one for key, one in {**WELL[name], **value}.items() if one is not None}
        files, programs, ncus, packages = (now[name] for name in ("files", "programs", "ncus", "packages"))
        answers: dict[str, Any] = {
            "read": lambda path: files.get(str(path)),
            "exists": lambda path: str(path) in files,
            "executable": lambda path: str(path) in ncus,
            "glob": lambda pattern: [Path(path) for path in ncus if Path(path).match(pattern)],
            "resolve": lambda path: path,
            "which": lambda name: None,
            "run": lambda argv: programs.get(" ".join(argv)),
            "has_module": lambda name: name in packages,
            "package_version": lambda name: packages.get(name, ""),
            "gpu_absent": lambda: now["no_gpu"],
            "gpus": lambda: now["cards"],
        }
        vars(self).update(answers, privileged=now["privileged"])


def named(found: Diagnosis, name: str) -> HealthCheck:
    return next(one for one in found.checks if one.name == name)


def test_a_machine_where_all_is_well_has_only_ticks() -> None:
    found = doctor.examine(Made(), trial=lambda ncu: good("trial", "done"))
    assert {one.outcome for one in found.checks} == {Status.good}
    assert found.able
    assert not [one for one in found.checks if one.cure]
    assert named(found, "ncu").said == f"{NCU}, 2025.3.1 (/opt/nvidia)", "the newest"
    assert named(found, "other ncu").said == f"{OLDER}, 2024.3.2.0 (toolkit)"
    assert named(found, "trial").said == "done"


def read(value: Any) -> Any:
    """Return a change as `Made` takes it: a dash stands for None, a list in a table for a program's answer."""
    if isinstance(value, dict):
        return {key: Ran(*one) if isinstance(one, list) else read(one) for key, one in value.items()}
    return tuple(map(read, value)) if isinstance(value, list) else None if value == "-" else value


def test_each_lack_is_named_with_its_cure() -> None:
    for row, name, outcome, said, cure in FACTS["lacks"]:
        changes = {key: read(value) for key, value in row.items()}
        diagnosis = doctor.examine(Made(**changes), trial=lambda ncu: good("trial", "made"))
        one = named(diagnosis, name)
        assert one.outcome == outcome, changes
        assert said in one.said, changes
        assert cure in one.cure, changes
        assert bool(one.cure) == (outcome != "good"), changes
        assert diagnosis.able == (outcome != "bad"), changes
        tried = any(one.name == "trial" for one in diagnosis.checks)
        assert tried == diagnosis.able, "tried only where nothing is in its way"


def test_a_named_ncu_is_the_one_and_a_trial_that_fails_is_a_cross() -> None:
    assert named(doctor.examine(Made(), Path(OLDER)), "ncu").said.endswith("(--ncu)")
    assert named(doctor.examine(Made(), Path("/nowhere")), "ncu").outcome is Status.bad
    assert not doctor.examine(Made(), trial=lambda ncu: bad("trial", "failed", "try")).able


def test_whether_it_can_compute_is_a_verdict_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(toolchain, "TOOLKIT", tmp_path / "none")
    monkeypatch.setattr(toolchain, "packaged", list)
    for number, (nvcc, nvdisasm, name, said, cure) in enumerate(FACTS["tools"]):
        monkeypatch.setenv("PATH", f"{tmp_path}/{number}:/bin")
        for program, text in (("nvcc", nvcc), ("nvdisasm", nvdisasm)):
            if text:
                executable(tmp_path / str(number) / program, text)
        diagnosis = doctor.examine(Made(no_gpu="no GPU"), toolchain=toolchain.Toolchain())
        assert not diagnosis.able
        assert diagnosis.computes == (not name)
        assert [check.name for check in diagnosis.computing_obstacles] == ([name] if name else [])
        last = diagnosis.computing_obstacles[0] if name else diagnosis.computing[-1]
        assert said in last.said
        assert cure in last.cure
        console = Console(file=io.StringIO(), width=200)
        doctor.show(diagnosis, console)
        text = console.file.getvalue()  # type: ignore[attr-defined]
        assert "This machine cannot measure: GPU." in text
        verdict = f"This machine cannot compute wavefronts: {name}." if name else "This machine can compute wavefronts."
        assert verdict in text
        assert text.strip().endswith(f"ncu-swizzle profile kernel2 --engine {'recorded' if name else 'emulated'}")
        content = json.loads(diagnosis.to_json())
        assert content["computes"] == diagnosis.computes
        assert content["computing"][0].keys() == content["checks"][0].keys()


def test_the_real_machine_answers_without_raising() -> None:
    system = System()
    found = doctor.examine(system)
    assert {one.name for one in found.checks} >= {"driver", "GPU", "ncu", "counters", "nvcc", "PyCUDA"}
    assert system.free_bytes("/nowhere/at/all")
    assert system.run(["/nowhere/program"]) is None
    assert system.read("/nowhere") is None


@pytest.mark.skipif(not device.absent(), reason="this test is about machines without a GPU")
def test_the_command_tells_with_exit_code_3_where_measuring_is_impossible(typed: Typed, work: Path) -> None:
    done = typed("doctor --json doctor.json")
    assert done.returncode == 3, done.stderr
    assert "✗ GPU" in done.stdout
    assert "This machine cannot measure: driver, GPU" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80
    content = json.loads((work / "doctor.json").read_text(encoding="utf-8"))
    assert (content["schema"], content["able"]) == (1, False)
    assert {"name", "outcome", "said", "cure"} == content["checks"][0].keys()
