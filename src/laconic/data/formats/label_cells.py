"""Parse the labels in a table's cell: names with a separator, a Python or JSON list, or one label.

The separator is chosen over all cells at once. A stray sign in a few cells must not decide for the rest, and a comma
inside a name ("Home, Garden & Tools") must not cut it.
"""

from __future__ import annotations

import ast
import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from laconic.data.formats.records import excerpt
from laconic.units import counted, plural

AUTO, NONE = "auto", "none"  # in place of a separator: chosen by the cells; each cell is one label
CANDIDATES = ("|", ";", ",")  # of equals the first is chosen
_SELDOM_IN_NAMES = ("|", ";")
_NEARLY_ALL = 0.9
_ENOUGH = 50_000  # different cells to tell lists from names by
_ENTITY = re.compile(r"&(?:#\w+|[A-Za-z]\w*);")  # of HTML: its semicolon separates nothing
_ITEM = re.compile(
    r"""\s*(?:(?P<number>-?\d+)(?![\w.])
    |(?P<wrapped>np\.str_\()?(?P<text>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")(?(wrapped)\)))""",
    re.VERBOSE | re.DOTALL,
)
_BEGUN = re.compile(r"""\[\s*(?:np\.str_\()?['"]""")
_BETWEEN = re.compile(r"\s*,\s*|\s+|(?=\])")  # numpy writes spaces alone
_ADDRESS = re.compile(r"<?(\w+://[^<>\s,;|]+)>?")  # as Annif writes them, with spaces between several
_ADDRESSES = re.compile(r"\s*(?:<\w+://[^<>\s]+>\s*)+|\s*\w+://[^<>\s,;|]+(?:\s+\w+://[^<>\s,;|]+)+\s*")
_ESCAPED = re.compile(r"""(?:[^\\]|\\(?:[\\'"abfnrtv]|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}))*""", re.DOTALL)


def split_cell(cell: str, separator: str) -> list[str]:
    """Return the labels of a cell, without blanks around them; empty ones are dropped."""
    parts = [cell] if separator == NONE else cell.split(separator)
    return [label for part in parts if (label := part.strip())]


def listed(cell: str) -> list[str | int] | None:
    """Return the items of a cell that is a list of quoted names, integers or addresses; None: it is not a list.

    A ValueError is raised where a list of quoted names is broken.
    """
    if _ADDRESSES.fullmatch(cell):
        return [*_ADDRESS.findall(cell)]
    if "[" not in cell:
        return None
    cell = cell.strip()
    if not _has_brackets(cell):
        return None
    items: list[str | int] = []
    place = len(cell) - len(cell[1:].lstrip())
    while place < len(cell) - 1:
        match = _ITEM.match(cell, place)
        after = None if match is None else _BETWEEN.match(cell, match.end())
        if match is None or after is None:
            if _BEGUN.match(cell):
                raise ValueError(f"near {cell[place : place + 20]!r}")
            return None
        items.append(int(match["number"]) if match["number"] else _unquoted(match["text"]))
        place = after.end()
    return items


def looks_like_a_list(cell: str) -> bool:
    """Tell whether a cell is a list, or has brackets around several things that are not quoted."""
    if "[" not in cell:
        return False
    try:
        return listed(cell) is not None or ("," in cell and _has_brackets(cell.strip()))
    except ValueError:
        return True


def has_sign(cell: str, sign: str) -> bool:
    """Tell whether a cell has a candidate for a separator; the semicolon of an HTML entity is none."""
    return sign in cell and (sign != ";" or sign in _ENTITY.sub("", cell))


def best_separator(cells: Mapping[str, int]) -> str:
    """Return the separator that most cells agree on, or NONE; `cells` has how often each different cell occurs."""
    having = {sign: sum(times for cell, times in cells.items() if has_sign(cell, sign)) for sign in CANDIDATES}
    if having[","] and not _commas_separate(_parts(_some(cells), max(_SELDOM_IN_NAMES, key=having.__getitem__))):
        having[","] = 0
    best = max(CANDIDATES, key=having.__getitem__)
    return best if having[best] else NONE


class Familiar(NamedTuple):
    """Labels known before any cell is read, because a model has them."""

    separator: str  # of the tables that the model was trained on; empty: these were no tables
    names: Callable[[], Iterable[str]]  # of its labels


def familiar_separator(cells: Mapping[str, int], familiar: Familiar) -> str:
    """Return the separator by which most cells consist of known labels; of equals the one of the model's own tables."""
    names = {*familiar.names()}
    options = [*[familiar.separator] * bool(familiar.separator), *CANDIDATES, NONE]
    known = {option: _cells_of(names, cells, option) for option in options}
    best = [option for option in known if known[option] == max(known.values())]
    if familiar.separator in best or len(best) == 1:
        return best[0]
    usual = best_separator(cells)
    return usual if usual in best else best[0]


def _cells_of(names: Collection[str], cells: Mapping[str, int], separator: str) -> int:
    """Return how many cells have known labels alone."""
    return sum(
        times
        for cell, times in cells.items()
        if (own := split_cell(cell, separator)) and all(one in names for one in own)
    )


def notes_on_choice(cells: Sequence[tuple[str, str]], separator: str) -> Iterator[str]:
    """Report the separator that was chosen, and where other candidates occur; cells come with their positions."""
    others = [sign for sign in CANDIDATES if sign != separator]
    found = {sign: having for sign in others if (having := [one for one in cells if has_sign(one[1], sign)])}
    if separator != NONE:
        yield f"labels are separated by {separator!r} (another: --separator SIGN; one label per cell: --separator none)"
    elif any(cell.strip() for _, cell in cells):
        yield "each cell is one label (labels with a separator between them: --separator SIGN)"
    for sign, having in found.items():
        place, cell = having[0]
        yield (
            f"{sign!r} is in {counted(len(having), 'cell')} and was read as part of a label, for example in "
            f"{excerpt(cell)!r} ({place}); where it separates labels, say --separator {sign!r}"
        )
    if seeming := [one for one in cells if looks_like_a_list(one[1])]:
        yield _about_lists(seeming, "read as it stands", "; the names in a list need quotes, as in ['a', 'b']")


def notes_on_request(cells: Sequence[tuple[str, str]], separator: str) -> Iterator[str]:
    """Report what speaks against a separator that the user named; it is used all the same."""
    if separator != NONE and not any(separator in cell for _, cell in cells):
        having = {sign: sum(1 for _, cell in cells if has_sign(cell, sign)) for sign in CANDIDATES}
        others = [
            f"{counted(count, 'cell')} {plural(count, 'has', 'have')} {sign!r}"
            for sign, count in having.items()
            if count
        ]
        if others:
            yield f"no cell has the separator {separator!r}, but {', '.join(others)}"
    if separator != NONE and (seeming := [one for one in cells if looks_like_a_list(one[1])]):
        yield _about_lists(seeming, f"cut at {separator!r}", "; lists are read as such without --separator")


def _about_lists(cells: Sequence[tuple[str, str]], read: str, remedy: str) -> str:
    count, (place, cell) = len(cells), cells[0]
    seem = plural(count, "looks like a list and was", "look like lists and were")
    return f"{counted(count, 'cell')} {seem} {read}, for example {excerpt(cell)!r} ({place}){remedy}"


def _some(cells: Mapping[str, int]) -> Mapping[str, int]:
    """Return the cells, or an even sample of them where there are very many."""
    step = -(-len(cells) // _ENOUGH)
    return cells if step <= 1 else dict(islice(cells.items(), 0, None, step))


def _parts(cells: Mapping[str, int], separator: str) -> Counter[str]:
    parts: Counter[str] = Counter()
    for cell, times in cells.items():
        for part in split_cell(cell, separator):
            parts[part] += times
    return parts


def _commas_separate(cells: Mapping[str, int]) -> bool:
    """Tell lists of labels from names that have a comma inside.

    The labels of a list occur elsewhere too: alone, or beside others. The parts of a name do not, while the name
    itself is repeated. Where cells say neither, there must be a comma in most of them.
    """
    parts = {cell: {*split_cell(cell, ",")} for cell in cells}
    cells_with = Counter(part for own in parts.values() for part in own)
    all_cells = sum(cells.values())
    different = having = lists = names = 0
    for cell, times in cells.items():
        if "," not in cell:
            continue
        different, having = different + 1, having + times
        elsewhere = sum(1 for part in parts[cell] if cells_with[part] > 1)
        if 2 * elsewhere > len(parts[cell]):
            lists += times
        elif times > 1:
            names += times
    if 2 * lists > having:
        return True
    if 2 * names > having:
        return different == 1 and having > _NEARLY_ALL * all_cells  # one list that never varies
    return 2 * having >= all_cells


def _has_brackets(cell: str) -> bool:
    return len(cell) > 1 and cell[0] == "[" and cell[-1] == "]"


def _unquoted(literal: str) -> str:
    """Return what a quoted text stands for, by JSON's rules or else by Python's."""
    if "\\" not in literal:
        return literal[1:-1]
    if literal[0] == '"':
        try:
            return str(json.loads(literal, strict=False))
        except ValueError:
            pass
    if not _ESCAPED.fullmatch(literal):
        raise ValueError(f"near {literal[:20]!r}")
    return str(ast.literal_eval(literal.replace("\n", "\\n").replace("\r", "\\r")))
