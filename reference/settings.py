"""Pages of settings: one per method, from the configs' own descriptions, and one for what all methods share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from laconic.cli.settings import shown
from laconic.config import METHOD_NAMES
from laconic.methods.registry import METHODS
from laconic.methods.settings import Setting, config_settings, method_settings
from laconic.update.rankers.fine_tune import Config as UpdateConfig
from reference.markdown import breakable, code, plain, table, titled

_WRAPPERS = {
    "reranker": "Re-ranker (`--rerank`)",
    "fusion": "Fusion (`--fuse`)",
    "extra_texts": "Label texts as training texts (`--label-texts`)",
}
_SHARED = ("text.", "vocabulary.")


def file_name(method: str) -> str:
    """Return the name of a method's page; + has a meaning in addresses."""
    return method.replace("+", "-plus") + ".md"


def pages() -> dict[str, str]:
    """Return the pages by their names under reference/settings/."""
    of_methods = {file_name(one): page(one) for one in METHOD_NAMES}
    return {"index.md": index(), "shared.md": shared_page(), "update.md": update_page(), **of_methods}


def index() -> str:
    """Return the page that leads to all others."""
    counts = {method: str(len(own_settings(method))) for method in METHOD_NAMES}
    rows = [[f"[{method}]({file_name(method)})", _summary(method), count] for method, count in counts.items()]
    return f"""# Settings

A setting is given as `--set NAME=VALUE` to [`laconic train`](../cli/train.md), as a line of a preset (a TOML file,
`--preset FILE`), or as an argument of `Laconic`: `surrogate.epochs` is `Laconic("astec", surrogate={{"epochs": 5}})` or
`Laconic("astec", surrogate__epochs=5)`. Defaults suit most data. `laconic settings METHOD` prints these pages on a
terminal, and `--json` makes it output for programs.

{table(["method", "", "settings"], rows)}

Settings of the [text, the vocabulary and the wrappers](shared.md) are common to all methods.
[`laconic update`](update.md) has settings of its own.
"""


def page(method: str) -> str:
    """Return the page of a method's own settings."""
    found = own_settings(method)
    parts = [
        titled(method),
        f"# Settings of {method}",
        "",
        f"{_summary(method)} `laconic settings {method}` prints this page.",
        "",
    ]
    for group in dict.fromkeys(_group_of(one) for one in found):
        heading = "## The method" if not group else f"## {group}"
        parts += [heading, "", settings_table(one for one in found if _group_of(one) == group), ""]
    others = _other_defaults(method)
    parts += ["## Text, vocabulary and wrappers", "", "They are [common to all methods](shared.md)."]
    if others:
        listed = ", ".join(f"`{one.name}` is {code(shown(one.default))}" for one in others)
        parts += ["", f"Defaults of {method} that differ from that page: {listed}."]
    return "\n".join(parts) + "\n"


def shared_page() -> str:
    """Return the page of settings that all methods have."""
    found = [one for one in method_settings("inceptionxml") if one.wrapper or one.name.startswith(_SHARED)]
    parts = [
        titled("all methods"),
        "# Settings of all methods",
        "",
        "How texts are split into words, which words are known, and the wrappers that can be put over any method.",
        "A wrapper is used where its option, or any setting of its group, is given.",
    ]
    titles = {"text": "Text", "vocabulary": "Vocabulary", **_WRAPPERS}
    for group, title in titles.items():
        parts += ["", f"## {title}", "", settings_table(one for one in found if one.name.startswith(f"{group}."))]
    return "\n".join(parts) + "\n"


def update_page() -> str:
    """Return the page of the settings with which a finished model is updated."""
    return f"""{titled("update")}
# Settings of the update

[`laconic update`](../cli/update.md) takes them as `--set NAME=VALUE`, `Laconic.update` as arguments. They are common to
all methods.

{settings_table(config_settings(UpdateConfig()))}
"""


def settings_table(settings: Iterable[Setting]) -> str:
    """Return a table of settings, each with its default, its values and what it does."""
    found = list(settings)
    rows = [_row(one) for one in found]
    marked = "\n\n\\* can also be changed in a finished model: `laconic predict MODEL --set NAME=VALUE`."
    return table(["setting", "default; values", "what it does"], rows) + marked * any(
        one.after_training for one in found
    )


def _row(setting: Setting) -> Sequence[str]:
    name = breakable(setting.name) + r"\*" * setting.after_training
    meaning = plain(setting.meaning) + f" In the paper: {plain(setting.symbol)}." * bool(setting.symbol)
    return [name, f"{code(shown(setting.default))}; {plain(setting.values)}", meaning]


def own_settings(method: str) -> list[Setting]:
    """Return the settings of a method that not all methods have."""
    return [one for one in method_settings(method) if not one.wrapper and not one.name.startswith(_SHARED)]


def _group_of(setting: Setting) -> str:
    group, dot, _ = setting.name.rpartition(".")
    return f"Group `{group}`" if dot else ""


def _other_defaults(method: str) -> list[Setting]:
    usual = {one.name: one.default for one in method_settings("inceptionxml")}
    shared = [one for one in method_settings(method) if one.wrapper or one.name.startswith(_SHARED)]
    return [one for one in shared if one.default != usual[one.name]]


def _summary(method: str) -> str:
    module = METHODS[method].train.__module__
    text = (__import__(module, fromlist=["__doc__"]).__doc__ or "").partition("\n\n")[0].replace("\n", " ")
    name, colon, rest = text.partition(": ")
    summary = rest if colon and len(name) < 40 else text
    return plain(summary[0].upper() + summary[1:])
