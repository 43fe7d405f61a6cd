"""Sweeps by workers, our own and those of a cluster that others started, as processes of their own."""

import csv
import io
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import process
from tests.support.fleets import cluster, needs_fleet
from tests.support.marks import NEEDS_ALL
from tests.support.places import ROOT

pytestmark = [needs_fleet, NEEDS_ALL, pytest.mark.long]
SWEEP = ("sweep", "tile", "--problem", "n=64,96,128", "--engine", "emulated", "--csv", "-")


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_a_worker_of_another_version_is_refused(project: Path, tmp_path: Path, other_version: Path) -> None:
    with cluster(tmp_path, str(ROOT), str(other_version)) as file:
        done = process.command(*SWEEP, "--scheduler-file", str(file), "-o", "out", "--json", "all.json", folder=project)
        assert done.returncode == 0, done.stderr
        assert [row["state"] for row in rows(done.stdout)] == ["done"] * 6
        said = (project / "all.json").read_text()
        assert "the worker w1 is refused: it has ncu-swizzle" in said
        assert '"worker": "w1"' not in (project / "out" / "sweep.json").read_text()


def test_sources_travel_to_workers_that_lack_them(project: Path, tmp_path: Path) -> None:
    alone = process.command(*SWEEP, "-o", "alone", folder=project)
    with cluster(tmp_path, str(ROOT), hidden=project) as file:
        done = process.command(*SWEEP, "--scheduler-file", str(file), "-o", "out", folder=project)
        assert done.returncode == 0, done.stderr
    assert done.stdout == alone.stdout
    profiles = [project / out / "points/tile-swizzled/n64/profile.json" for out in ("alone", "out")]
    ours, theirs = (json.loads(profile.read_text(encoding="utf-8")) for profile in profiles)
    assert ours["sources"] == theirs["sources"]
    assert ours["instructions"] == theirs["instructions"]


def test_tls_is_asked_for_and_kept(project: Path, tmp_path: Path) -> None:
    if not shutil.which("openssl"):
        pytest.skip("needs openssl")
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=fleet",
         "-keyout", key, "-out", certificate], check=True, capture_output=True,
    )  # fmt: skip
    files = ("--tls-ca-file", str(certificate), "--tls-cert", str(certificate), "--tls-key", str(key))
    with cluster(tmp_path, str(ROOT), options=files) as file:
        assert '"address": "tls://' in file.read_text()
        plain = process.command(*SWEEP, "--scheduler-file", str(file), "-o", "out", folder=project)
        assert plain.returncode in (2, 3), "without the certificate nobody gets in"
        where = {"CA_FILE": certificate, "CLIENT__CERT": certificate, "CLIENT__KEY": key}
        tls = {f"DASK_DISTRIBUTED__COMM__TLS__{name}": str(path) for name, path in where.items()}
        done = subprocess.run(
            [sys.executable, "-m", "ncu_swizzle", *SWEEP, "--scheduler-file", str(file), "-o", "out"],
            capture_output=True, text=True, check=False, cwd=project, env=process.environment(**tls),
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert [row["state"] for row in rows(done.stdout)] == ["done"] * 6
    assert os.environ.get("DASK_DISTRIBUTED__COMM__TLS__CA_FILE") is None


SWEPT = ("sweep", "tile", "--problem", "n=64,96,128,160,192,224", "--engine", "emulated", "--csv", "-", "-o", "out")
TWO = ("--workers", "2")


def test_workers_give_what_one_process_gives(project: Path) -> None:
    alone = process.command(*SWEPT, folder=project)
    two = process.command(*SWEPT, *TWO, "-f", folder=project)
    assert two.returncode == 0, two.stderr
    assert two.stdout == alone.stdout
    assert len(list(csv.DictReader(io.StringIO(two.stdout)))) == 12
    saved = json.loads((project / "out" / "sweep.json").read_text())
    assert {point["worker"] for point in saved["points"]} == {"worker-0", "worker-1"}
    points = list(csv.DictReader(io.StringIO(two.stdout)))
    assert any(int(point["excessive"]) for point in points)
    assert {point["duration"] for point in points} == {""}, "unknown, not zero"
    again = process.command(*SWEPT, "--resume", folder=project)
    assert again.stdout == alone.stdout
    assert "is profiled again" not in again.stderr
