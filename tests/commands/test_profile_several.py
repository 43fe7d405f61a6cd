"""``profile KERNEL KERNEL…``: each kernel into a folder of its own, one after the other or by workers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support import process
from tests.support.fleets import needs_fleet

KERNELS = ("transpose-xor", "vectors-4-swizzle", "kernel2")
RECORDED = ("--engine", "recorded")


def saved(folder: Path) -> dict[str, dict[str, object]]:
    """Return what a folder of runs holds: each run's manifest and profiles."""
    return {str(file.relative_to(folder)): json.loads(file.read_text(encoding="utf-8"))
            for file in sorted(folder.glob("*/*.json"))}  # fmt: skip


def test_each_has_the_folder_that_it_has_alone(tmp_path: Path) -> None:
    done = process.command("profile", *KERNELS, *RECORDED, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in (tmp_path / "swizzle-out").iterdir()) == sorted(KERNELS)
    together = saved(tmp_path / "swizzle-out")
    alone = process.command("profile", "kernel2", *RECORDED, "-o", "alone/kernel2", folder=tmp_path)
    assert alone.returncode == 0, alone.stderr
    assert {name: text for name, text in together.items() if name.startswith("kernel2/")} == saved(tmp_path / "alone")
    assert alone.stdout.replace("alone/kernel2", "swizzle-out/kernel2").strip() in done.stdout


@needs_fleet
def test_workers_give_what_one_process_gives(tmp_path: Path) -> None:
    alone = process.command("profile", *KERNELS, *RECORDED, "-o", "out", folder=tmp_path)
    expected = saved(tmp_path / "out")
    assert set(expected) >= {f"{name}/run.json" for name in KERNELS}
    two = process.command("profile", *KERNELS, *RECORDED, "-o", "out", "-f", "--workers", "2", folder=tmp_path)
    assert two.returncode == 0, two.stderr
    assert saved(tmp_path / "out") == expected
    shown = [line for line in two.stdout.splitlines() if "dashboard" not in line]
    assert shown == alone.stdout.splitlines()


def test_one_that_fails_does_not_stop_the_others(tmp_path: Path) -> None:
    words = ("profile", "gemm-plain", "transpose-xor", *RECORDED, "--problem", "n=4096", "-o", "out")
    failing = process.command(*words, folder=tmp_path)
    assert failing.returncode == 4, failing.stderr
    assert "failed: gemm-plain: " in failing.stdout
    assert "1 of 2 kernels failed; gemm-plain: " in " ".join(failing.stderr.split())
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["transpose-xor"]


def test_nothing_is_written_over_unasked(tmp_path: Path) -> None:
    (tmp_path / "out" / "kernel2").mkdir(parents=True)
    (tmp_path / "out" / "kernel2" / "run.json").write_text("mine")
    refused = process.command("profile", *KERNELS, *RECORDED, "-o", "out", folder=tmp_path)
    assert "already holds run.json" in " ".join(refused.stderr.split())
    assert refused.returncode == 2
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["kernel2"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("kernel1", "kernel2", "--json", "-"), "are for one kernel or program"),
        (("kernel2", "app.launches"), "app.launches is profiled alone"),
        (("--workers", "2", "--", "./app"), "for kernels, not for a program"),
        (("kernel1", "kernel2", "-k", "fn"), "only for programs"),
        (("kernel1", "nothing-of-the-kind"), "nothing-of-the-kind"),
    ],
)
def test_what_cannot_be_is_said_before_anything_runs(words: tuple[str, ...], said: str, tmp_path: Path) -> None:
    done = process.command("profile", *RECORDED, *words, folder=tmp_path)
    assert done.returncode == 2, done.stderr
    assert said in " ".join(done.stderr.split())
    assert not (tmp_path / "swizzle-out").exists()
