"""JSON Lines: a record is what `json` says it is, or it is refused with its place, its value and what to do."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laconic.data.formats.records import integers_of, list_of, number_of, numbers_of, records, text_of
from laconic.errors import DataError
from tests.variants import examples


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("records")


def written(folder: Path, data: bytes | str) -> Path:
    path = folder / "records.json"
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


def test_blank_lines_are_passed_over_but_counted(folder: Path) -> None:
    data = b'\xef\xbb\xbf{"a": 1}\r\n\n  \n{"a": "\xc3\xa9\xe2\x80\xa8"}'
    assert list(records(written(folder, data))) == [(1, {"a": 1}), (4, {"a": "é\u2028"})]
    assert list(records(written(folder, gzip.compress(data))))[1] == (4, {"a": "é\u2028"})


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"a": 1', r"records\.json:2: this is not JSON \(.*\) near '\{\"a\": 1'; every line must be one whole"),
        ("nonsense", r":2: this is not JSON .* near 'nonsense'"),
        ('{"a": 1} {"a": 2}', r":2: this is not JSON \(Extra data, character 10\)"),
        ("[1, 2]", r":2: the line is \[1, 2\], where a JSON object is needed"),
        ('"' + "x" * 500 + '"', r":2: the line is \"x{78}…, where a JSON object"),
        ('{"a": NaN}', r":2: NaN is not a JSON number, in '\{\"a\": NaN\}'"),
        ('{"a": -Infinity}', r":2: -Infinity is not a JSON number"),
        ("[" * 100_000, r":2: brackets are nested too deep: '\[{79}…'"),
        ('{"a": ' + "1" * 5000 + "}", r":2: Exceeds the limit \(4300 digits\)"),
    ],
)
def test_a_line_that_is_not_an_object_is_refused(line: str, message: str, folder: Path) -> None:
    with pytest.raises(DataError, match=message) as error:
        list(records(written(folder, f'{{"a": 0}}\n{line}\n')))
    assert len(str(error.value)) < 300 + len(str(folder))


@pytest.mark.parametrize(
    ("accessor", "value", "message"),
    [
        (text_of, 12, r'x:1: "key" is 12, where a text is needed'),
        (text_of, None, r'x:1: "key" is null, where a text is needed'),
        (text_of, "half \ud800", r'x:1: "key" holds half of a character, \\ud800, at position 6'),
        (number_of, "12", r'x:1: "key" is "12", where a number is needed'),
        (number_of, True, r'x:1: "key" is true, where a number is needed'),
        (number_of, 10**400, r'x:1: "key" is 10{78}…, where a number that a computer can hold'),
        (number_of, float("inf"), r'x:1: "key" is Infinity, where a number that'),
        (list_of, "a", r'x:1: "key" is "a", where a list is needed'),
        (integers_of, [1, 2.0], r'x:1: "key" is 2.0, where an integer is needed'),
        (integers_of, [False], r'x:1: "key" is false, where an integer is needed'),
        (numbers_of, [1, None], r'x:1: "key" is null, where a number is needed'),
    ],
)
def test_a_value_of_the_wrong_type_is_refused(accessor: Any, value: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        accessor({"key": value}, "key", "x:1")


def test_a_missing_key_is_told_with_those_that_are_there() -> None:
    with pytest.raises(DataError, match=r'x:1: the key "title" is missing \(the record\'s keys: "uid", "name"\)'):
        text_of({"uid": 1, "name": 2}, "title", "x:1")


def test_values_of_the_right_type_come_back_as_they_are() -> None:
    record = {"text": "naïve 😀", "number": 3, "list": [1, "a"], "integers": [], "numbers": [1, 0.5]}
    assert text_of(record, "text", "") == "naïve 😀"
    assert number_of(record, "number", "") == 3.0
    assert list_of(record, "list", "") == [1, "a"]
    assert integers_of(record, "integers", "") == []
    assert numbers_of(record, "numbers", "") == [1.0, 0.5]


VALID = [{"uid": "a", "title": "Über 😀 \\", "target_ind": [1, 20], "target_rel": [1.0, 2e-3]}, {"uid": 7, "title": ""}]
LINES = "".join(json.dumps(record, ensure_ascii=n == 0) + "\n" for n, record in enumerate(VALID)).encode()


@examples(300)
@given(data=st.data())
def test_damaged_records_are_read_as_json_reads_them_or_refused(data: st.DataObject, folder: Path) -> None:
    damaged = bytearray(LINES)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(damaged)))
        damaged[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    try:
        found = list(records(written(folder, bytes(damaged))))
    except DataError:
        return
    lines = [line for line in damaged.removeprefix(b"\xef\xbb\xbf").decode().split("\n") if not line.isspace() and line]
    assert [record for _, record in found] == [json.loads(line) for line in lines]
