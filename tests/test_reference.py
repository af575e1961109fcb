"""The references of the site are complete: every verb, option, setting, public name and path has its sentence."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

pytest.importorskip("mkdocs")

from mkdocs.commands.build import build
from mkdocs.config import load_config
from mkdocs.exceptions import Abort
from reference import http_api, verbs
from reference import settings as settings_pages
from reference.hook import decisions, expanded, generated, with_links_mended
from reference.markdown import breakable, code, plain

from laconic.config import METHOD_NAMES
from laconic.methods.settings import method_settings
from laconic.serve.routes import openapi_of
from laconic.serve.settings import Serving
from laconic.update.rankers.fine_tune import Config as UpdateConfig

ROOT = Path(__file__).parents[1]
PYTHON = ROOT / "docs" / "reference" / "python"


# The command line


def test_every_verb_has_a_page() -> None:
    pages = verbs.pages()
    assert {f"{name}.md" for name in verbs.verbs()} | {"index.md"} == pages.keys()
    assert {"train.md", "predict.md", "settings.md"} <= pages.keys()
    assert all(f"({name})" in pages["index.md"] for name in pages if name != "index.md")


@pytest.mark.parametrize("verb", verbs.verbs())
def test_every_option_and_argument_has_a_sentence_on_its_page(verb: str) -> None:
    command, page = verbs.verbs()[verb], verbs.page(verb)
    assert command.help, f"{verb} has no help"
    assert verbs.usage(verb) in page
    for param in verbs.parameters(command):
        sentence = verbs.help_of(param)
        assert sentence.endswith("."), f"{verb}: {param.name} has no sentence"
        assert plain(sentence) in page
        assert all(f"{name}" in page for name in param.opts if name.startswith("-"))


def test_defaults_and_bounds_are_those_of_the_command_line() -> None:
    page = verbs.page("serve")
    (port,) = [line for line in page.splitlines() if "--port" in line]
    assert port.endswith("0 to 65535. Default: `8000`. |")


# Settings


@pytest.mark.parametrize("method", METHOD_NAMES)
def test_every_setting_of_a_method_is_in_the_reference(method: str) -> None:
    pages = settings_pages.pages()
    own, shared = pages[settings_pages.file_name(method)], pages["shared.md"]
    for one in method_settings(method):
        common = one.wrapper or one.name.startswith(("text.", "vocabulary."))
        page = shared if common else own
        (row,) = [line for line in page.splitlines() if line.startswith(f"| {breakable(one.name)}")]
        assert plain(one.meaning) in row
        assert plain(one.values) in row


def test_every_setting_of_the_update_is_in_the_reference() -> None:
    page = settings_pages.pages()["update.md"]
    for one in fields(UpdateConfig):
        (row,) = [line for line in page.splitlines() if line.startswith(f"| {breakable(one.name)}")]
        assert code(str(one.default)) in row
        assert " to " in row  # bounds


# Python


def documented() -> list[str]:
    """Return the names that the pages of the Python reference show."""
    return [name for path in sorted(PYTHON.glob("*.md")) for name in re.findall(r"^::: (\S+)", path.read_text(), re.M)]


def resolved(name: str) -> Any:
    module, _, rest = name, "", ""
    while True:
        try:
            found: Any = importlib.import_module(module)
        except ModuleNotFoundError:
            module = module.rpartition(".")[0]
            continue
        rest = name.removeprefix(module).lstrip(".")
        for part in filter(None, rest.split(".")):
            found = getattr(found, part)
        return found


def public_parts(name: str, thing: Any) -> Iterator[tuple[str, Any]]:
    """Yield a public class or function, what a module has of them, and the public methods of classes."""
    if isinstance(thing, ModuleType):
        for key in getattr(thing, "__all__", [key for key in vars(thing) if not key.startswith("_")]):
            inside = getattr(thing, key)
            own = hasattr(thing, "__all__") or getattr(inside, "__module__", "") == thing.__name__
            if own and (inspect.isclass(inside) or inspect.isfunction(inside)):
                yield from public_parts(f"{name}.{key}", inside)
        return
    yield name, thing
    if inspect.isclass(thing):
        ours = [one for one in thing.__mro__ if one.__module__.startswith("laconic")]
        for key, value in {key: value for one in reversed(ours) for key, value in vars(one).items()}.items():
            function = getattr(value, "fget", None) or getattr(value, "__func__", value)
            if not key.startswith("_") and inspect.isfunction(function) and function.__name__ != "<lambda>":
                yield f"{name}.{key}", function


@cache
def public_names() -> dict[str, Any]:
    return {one: thing for name in documented() for one, thing in public_parts(name, resolved(name))}


def test_the_python_reference_has_what_a_user_imports() -> None:
    assert {"laconic.estimator.Laconic", "laconic.predict.prediction.Prediction"} <= set(documented())
    assert len(public_names()) > 100


def test_every_public_class_and_function_has_its_sentence() -> None:
    silent = [name for name, thing in public_names().items() if not inspect.getdoc(thing)]
    assert silent == []


# The service and JSON


def test_every_path_and_form_of_the_service_is_on_its_page() -> None:
    document, page = openapi_of(Serving()), http_api.page()
    for path, methods in document["paths"].items():
        assert all(f"## {method.upper()} {path}\n" in page for method in methods)
    for name, form in document["components"]["schemas"].items():
        assert f"### {name}\n" in page
        assert all(code(key) in page for key in form.get("properties", {}))


# The site


def test_patterns_of_the_navigation_stand_for_pages() -> None:
    nav = [{"Home": "index.md"}, {"Start": "start/*.md"}, {"Guides": ["guides/first.md", "guides/*.md"]}]
    paths = ["index.md", "guides/second.md", "guides/first.md", "guides/inside/third.md"]
    assert expanded(nav, paths) == [{"Home": "index.md"}, {"Guides": ["guides/first.md", "guides/second.md"]}]


def test_links_out_of_the_pages_name_their_file() -> None:
    page = "[a](../Makefile) [b](results.md#x) [c](../CHANGELOG.md) [d](gone.md) [e](https://example.org)\n"
    assert with_links_mended(page, "docs/peers.md") == (
        "a (`Makefile`) [b](results.md#x) [c](changelog.md) [d](gone.md) [e](https://example.org)\n"
    )
    assert with_links_mended("[log](docs/log.md#a)", "CONTRIBUTING.md") == "[log](log.md#a)"
    assert with_links_mended("```\n[a](../Makefile)\n```\n", "docs/peers.md") == "```\n[a](../Makefile)\n```\n"


def test_every_decision_is_in_the_index() -> None:
    index = decisions()
    assert all(f"({path.name})" in index for path in (ROOT / "docs" / "decisions").glob("*.md"))


def test_generated_pages_never_hide_a_file() -> None:
    assert [path for path in generated() if (ROOT / "docs" / path).exists()] == []


@pytest.mark.parametrize(
    ("page", "nav"),
    [
        ("[gone](gone.md)", ["index.md"]),
        ("[here](#nowhere)", ["index.md"]),
        ("text", ["index.md", "missing.md"]),
        ("text", [{"Only": "other.md"}]),
    ],
)
def test_a_broken_link_or_a_page_outside_the_navigation_fails(page: str, nav: list[Any], tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text(f"# Title\n\n{page}\n")
    (tmp_path / "docs" / "other.md").write_text("# Other\n")
    more = nav if "other.md" in str(nav) else [*nav, "other.md"]
    config = load_config(
        str(ROOT / "mkdocs.yml"), docs_dir=str(tmp_path / "docs"), site_dir=str(tmp_path / "site"), hooks=[], nav=more
    )
    config.plugins.clear()
    with pytest.raises(Abort):
        build(config)
