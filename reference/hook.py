"""Events of MkDocs: add generated pages, expand the navigation, and mend links that leave the folder of pages.

In the navigation of mkdocs.yml, `guides/*.md` stands for all pages of that folder, and for none where there is none.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from fnmatch import fnmatch
from functools import cache
from pathlib import Path, PurePosixPath
from posixpath import normpath, relpath
from typing import Any

from mkdocs.structure.files import File, Files

from reference import http_api, notebooks, settings, verbs

ROOT = Path(__file__).parents[1]
# Pages of the repository's root, and where they are on the site.
OUTSIDE = {"CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
MOVED = {**OUTSIDE, "README.md": "index.md"}
# Of pages in the search, where a word of a title counts a thousand times one of a text: titles of the log count little.
BOOSTS = {"reference/*": 4, "changelog.md": 0.01, "log.md": 0.001, "decisions/*": 0.3}
_LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s#]+)(#[^)]*)?\)")
_CODE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


@cache
def generated() -> dict[str, str]:
    """Return all generated pages by their path on the site."""
    found = {f"reference/cli/{name}": text for name, text in verbs.pages().items()}
    found |= {f"reference/settings/{name}": text for name, text in settings.pages().items()}
    found |= {"reference/http-api.md": http_api.page(), "decisions/index.md": decisions()}
    for name, path in OUTSIDE.items():
        found[path] = with_links_mended((ROOT / name).read_text(encoding="utf-8"), name)
    return found


def decisions() -> str:
    """Return the index of docs/decisions/, the newest decision first."""
    lines = []
    for path in sorted((ROOT / "docs" / "decisions").glob("[0-9]*.md"), reverse=True):
        title = path.read_text(encoding="utf-8").partition("\n")[0].lstrip("# 0")
        lines.append(f"- [{title}]({path.name})")
    return "\n".join(["# Decisions", "", "Choices that others will ask about, one page each.", "", *lines, ""])


@cache
def tutorials() -> dict[str, str | bytes]:
    """Return the pages of tutorials with their pictures and notebooks, by their path on the site."""
    found: dict[str, str | bytes] = {}
    for path in notebooks.sources():
        source, done = path.read_text(encoding="utf-8"), notebooks.made(path)
        text, pictures = notebooks.page(path.stem, source, done)
        found[f"tutorials/{path.name}"] = with_links_mended(text, f"tutorials/{path.name}")
        found |= {f"tutorials/{name}": content for name, content in pictures.items()}
        found[f"tutorials/{path.stem}.ipynb"] = json.dumps(done, indent=1, ensure_ascii=False)
    return found


def expanded(nav: list[Any], paths: Iterable[str]) -> list[Any]:
    """Return the navigation with every pattern replaced by its pages; a section without pages is left out."""
    known, named = sorted(paths, key=lambda path: path.removesuffix(".md")), set(_named(nav))
    return [one for entry in nav for one in _entries(entry, [path for path in known if path not in named])]


def _named(nav: Any) -> Iterator[str]:
    """Yield the pages that the navigation names, which no pattern repeats."""
    match nav:
        case str():
            yield nav
        case list() | dict():
            for one in nav.values() if isinstance(nav, dict) else nav:
                yield from _named(one)


def _entries(entry: Any, paths: list[str]) -> Iterator[Any]:
    match entry:
        case str() if "*" in entry:
            yield from (path for path in paths if fnmatch(path, entry) and path.count("/") == entry.count("/"))
        case dict():
            ((title, inside),) = entry.items()
            if isinstance(inside, str) and "*" not in inside:
                yield entry
            elif found := expanded_section(inside, paths):
                yield {title: found}
        case _:
            yield entry


def expanded_section(inside: Any, paths: list[str]) -> list[Any]:
    """Return the entries of a section, which may be one pattern."""
    return [one for entry in (inside if isinstance(inside, list) else [inside]) for one in _entries(entry, paths)]


def with_links_mended(text: str, path: str) -> str:
    """Return a page whose links out of the folder of pages name the file instead.

    `path` is the page's own path in the repository. Pages of the root that are on the site stay links.
    """
    parts, last = [], 0
    for block in _CODE.finditer(text):
        parts += [_LINK.sub(lambda found: _mended(found, path), text[last : block.start()]), block[0]]
        last = block.end()
    return "".join([*parts, _LINK.sub(lambda found: _mended(found, path), text[last:])])


def _mended(found: re.Match[str], path: str) -> str:
    picture, words, target, anchor = found[1], found[2], found[3], found[4] or ""
    if "://" in target or target.startswith("mailto:"):
        return found[0]
    wanted = normpath((PurePosixPath(path).parent / target).as_posix())
    at = MOVED.get(path) or path.removeprefix("docs/")
    if wanted in MOVED:
        to = MOVED[wanted]
    elif wanted.startswith(("docs/", "tutorials/")):
        to = wanted.removeprefix("docs/")
    elif wanted == "docs" or not (ROOT / wanted).exists():
        return found[0]
    else:
        return f"{words} (`{wanted}`)"
    to = f"{to}/index.md" if to == "decisions" else to
    return f"{picture}[{words}]({relpath(to, PurePosixPath(at).parent)}{anchor})"


def on_config(config: Any) -> Any:
    """Expand the navigation."""
    docs = Path(config["docs_dir"])
    there = {path.relative_to(docs).as_posix() for path in docs.rglob("*.md")}
    there |= {f"tutorials/{path.name}" for path in notebooks.sources()}
    config["nav"] = expanded(config["nav"], there | generated().keys())
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the generated pages."""
    for path, text in generated().items():
        files.append(File.generated(config, path, content=text))
    for path, content in tutorials().items():
        files.append(File.generated(config, path, content=content))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Mend the links of a page that is a file of docs/, and rank pages in the search by what readers look for."""
    boosts = [boost for pattern, boost in BOOSTS.items() if fnmatch(page.file.src_uri, pattern)]
    page.meta.setdefault("search", {"boost": boosts[0] if boosts else 1})
    if page.file.generated_by is not None:
        return markdown
    return with_links_mended(markdown, f"docs/{page.file.src_uri}")
