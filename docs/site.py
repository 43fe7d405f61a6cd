"""MkDocs' hook: what the site has besides docs/: pages from elsewhere, the CLI reference, the catalogue, the gallery.

`make docs` builds the site with it. Nothing that it makes is committed.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "docs")]

import cli_reference  # noqa: E402 - of this folder
import gallery  # noqa: E402
import schemas  # noqa: E402

from ncu_swizzle.kernels import catalog  # noqa: E402
from ncu_swizzle.render import listing  # noqa: E402

MOUNTED = {  # page of the site: file of the checkout
    "CHANGELOG.md": "CHANGELOG.md",
    "CONTRIBUTING.md": "CONTRIBUTING.md",
    "SECURITY.md": "SECURITY.md",
    "recordings.md": "recordings/README.md",
    "test-data.md": "tests/data/README.md",
}
LINK = re.compile(r"(?<!!)\[(?P<text>[^\]]*)\]\((?P<target>[^)#:]+)(?P<anchor>#[^)]*)?\)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put the version in the footer."""
    config.copyright = f"ncu-swizzle {version('ncu-swizzle')} · Apache-2.0"
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add what is made or comes from outside docs/."""
    for name, content in made():
        files.append(File.generated(config, name, content=content))
    return files


def made() -> Iterator[tuple[str, str | bytes]]:
    """Yield each file that is not in docs/, with its content."""
    for page, source in MOUNTED.items():
        yield page, (ROOT / source).read_text(encoding="utf-8")
    yield "reference/cli.md", cli_reference.markdown()
    yield "catalog.md", listing.markdown(catalog.shipped())
    for name, schema in schemas.published().items():
        yield f"schemas/{name}.json", json.dumps(schema, indent=2) + "\n"
    yield from gallery.reports()


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001
    """Point links to files of the checkout at the page that shows them; others become plain text with their path."""
    return LINK.sub(lambda link: moved(link, page.file, files), markdown)


def moved(link: re.Match[str], of: File, files: Files) -> str:
    """Return the link as the site needs it."""
    folder = ROOT / Path(MOUNTED.get(of.src_uri, f"docs/{of.src_uri}")).parent
    target = (folder / link["target"]).resolve()
    if not target.is_relative_to(ROOT):
        return link[0]
    path = target.relative_to(ROOT).as_posix()
    mounted = {source: page for page, source in MOUNTED.items()}
    uri = mounted.get(path) or path.removeprefix("docs/")
    if files.get_file_from_path(uri) is None:
        return link[0] if not target.exists() else f"{link['text']} (`{path}` in the repository)"
    return f"[{link['text']}]({relative(uri, of.src_uri)}{link['anchor'] or ''})"


def relative(uri: str, page: str) -> str:
    """Return the way from a page to another file of the site."""
    return "../" * page.count("/") + uri


def on_serve(server: Any, **_: object) -> Any:
    """Rebuild when the commands change, too."""
    server.watch(str(ROOT / "ncu_swizzle" / "commands"))
    return server
