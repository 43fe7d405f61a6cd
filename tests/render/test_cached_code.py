"""Whatever lies in the cache, making a page runs none of it."""

import marshal
import pickle
from pathlib import Path

import pytest
from jinja2 import FileSystemBytecodeCache
from jinja2.bccache import bc_magic

from ncu_swizzle.base import paths
from ncu_swizzle.render import page
from tests.support import process
from tests.support.places import RECORDINGS


class Hostile:
    """Creates a file when it is unpickled."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> tuple[object, ...]:
        return (Path.touch, (self.file,))


@pytest.mark.long
def test_a_planted_template_is_not_executed(tmp_path: Path) -> None:
    """Under every name that Jinja would look for, with the checksum it expects: a pickle, then compiled code."""
    ran = tmp_path / "ran"
    folder = tmp_path / "cache" / "ncu-swizzle" / "templates"
    folder.mkdir(parents=True)
    jinja, templates = FileSystemBytecodeCache(str(folder)), page.environment()
    code = compile(f"open({str(ran)!r}, 'w')", "planted", "exec")
    for name in templates.list_templates():
        file = str(paths.reports() / name)
        source = (paths.reports() / name).read_text(encoding="utf-8")
        bucket = jinja.get_bucket(templates, name, file, source)
        planted = Path(folder, f"__jinja2_{bucket.key}.cache")
        harmful = pickle.dumps(Hostile(ran)) if len(name) % 2 else pickle.dumps(bucket.checksum) + marshal.dumps(code)
        planted.write_bytes(bc_magic + harmful)
    done = process.started(
        *("report", str(RECORDINGS / "attention" / "kernel2.ncu-rep"), "-o", "page.html"),
        folder=tmp_path,
        env=process.environment(XDG_CACHE_HOME=str(tmp_path / "cache")),
    )
    assert done.returncode == 0, done.stderr
    assert not ran.exists()
    assert "kernel2" in (tmp_path / "page.html").read_text(encoding="utf-8")
