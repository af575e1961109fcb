"""Settings to configs and back."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import laconic.config
from laconic.config import METHOD_NAMES, check_method, configure, method_called, preset_path, read_settings, settings_of
from laconic.errors import ConfigError
from laconic.methods.registry import METHODS, config_of


@dataclass(frozen=True, kw_only=True)
class Inner:
    size: int = 3
    share: float = 0.5


@dataclass(frozen=True, kw_only=True)
class Outer:
    name: str = "none"
    flag: bool = False
    limit: int | None = None
    rate: float = 1.0
    inner: Inner = field(default_factory=Inner)


def configured(*assignments: str, preset: Path | None = None) -> Outer:
    return configure(Outer, read_settings(preset, assignments))


def test_without_settings_a_config_has_its_defaults() -> None:
    assert configured() == Outer()


@dataclass(frozen=True, kw_only=True)
class Larger:
    inner: Inner = Inner(size=30, share=0.1)


def test_what_is_not_set_of_a_group_stays_as_the_config_has_it() -> None:
    assert configure(Larger, {"inner": {"share": 0.2}}) == Larger(inner=Inner(size=30, share=0.2))
    assert configure(Outer, {"inner": {"share": 0.2}}) == Outer(inner=Inner(size=3, share=0.2))


def test_a_value_is_read_as_the_type_that_the_setting_has() -> None:
    config = configured("name=two words", "flag=true", "limit = 5", "rate=2", "inner.size=1_000", "inner.share=1e-3")
    assert config == Outer(name="two words", flag=True, limit=5, rate=2.0, inner=Inner(size=1000, share=1e-3))
    assert type(config.rate) is float


@pytest.mark.parametrize(
    ("assignment", "name"),
    [
        ("name='5'", "5"),
        ('name="a=b"', "a=b"),
        ("name=a=b", "a=b"),
        ("name=", ""),
        (r"name=\w+#", r"\w+#"),
        ("name=" + "[" * 5000, "[" * 5000),
    ],
)
def test_a_text_may_be_quoted_and_need_not_be(assignment: str, name: str) -> None:
    assert configured(assignment).name == name


def test_a_value_is_one_value_whatever_is_in_it() -> None:
    assert configured("name=1\nflag = true") == Outer(name="1\nflag = true")


def test_assignments_overrule_the_preset_and_the_last_one_counts(tmp_path: Path) -> None:
    preset = tmp_path / "preset.toml"
    preset.write_text('name = "größe"\nrate = 3\n[inner]\nsize = 7\nshare = 0.1\n')
    assert configured(preset=preset) == Outer(name="größe", rate=3.0, inner=Inner(size=7, share=0.1))
    assert configured("inner.size=8", "inner.size=9", preset=preset).inner == Inner(size=9, share=0.1)


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("speed=1", r"there is no setting 'speed'; known are: name, flag, limit, rate, inner"),
        ("inner.speed=1", r"there is no setting 'inner\.speed'; known are: inner\.size, inner\.share"),
        ("speed", r"a setting must look like key=value, but is 'speed'"),
        ("=3", r"a setting must look like key=value, but is '=3'"),
        ("inner.=3", r"a setting must look like key=value"),
        ("inner=3", r"inner is a group of settings; set inner\.size=\.\.\. and the like"),
        ("rate.x=3", r"rate must be float, but is \{'x': 3\} \(dict\)"),
        ("inner.size=2.5", r"inner\.size must be int, but is 2\.5 \(float\)"),
        ("inner.size=true", r"inner\.size must be int, but is True \(bool\)"),
        ("flag=1", r"flag must be bool, but is 1 \(int\)"),
        ("flag=yes", r"flag must be bool, but is 'yes' \(str\)"),
        ("limit=many", r"limit must be int or NoneType, but is 'many' \(str\)"),
        ("rate=fast", r"rate must be float, but is 'fast' \(str\)"),
        ("rate=1" + "0" * 400, r"rate must be float, but is 10+ \(int\)"),
        ("rate=1" + "0" * 5000, r"rate must be float, but is '10+' \(str\)"),
        ("name=5", r"name must be str, but is 5 \(int\)"),
    ],
)
def test_what_cannot_be_set_is_refused_with_its_value(assignment: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        configured(assignment)


def test_nothing_can_be_set_inside_a_single_value() -> None:
    with pytest.raises(ConfigError, match=r"'rate\.x=3': 'rate' is a single value, so nothing can be set inside it"):
        configured("rate=2", "rate.x=3")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"rate = ", r"preset\.toml: not TOML: "),
        (b"name = '\xe9'", r"preset\.toml: not TOML: .*utf-8"),
        (b"x = " + b"1" * 5000, r"preset\.toml: not TOML: .*4300"),
        (b"x = " + b"[" * 5000, r"preset\.toml: not TOML: "),
        (b"speed = 1", r"there is no setting 'speed'"),
    ],
)
def test_a_preset_that_is_wrong_is_refused(data: bytes, message: str, tmp_path: Path) -> None:
    preset = tmp_path / "preset.toml"
    preset.write_bytes(data)
    with pytest.raises(ConfigError, match=message):
        configured(preset=preset)


def test_a_preset_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.toml: the preset cannot be read \(No such file or directory\)"):
        configured(preset=tmp_path / "none.toml")


CONFIGS = st.builds(
    Outer,
    name=st.text(),
    flag=st.booleans(),
    limit=st.none() | st.integers(),
    rate=st.floats(allow_nan=False),
    inner=st.builds(Inner, size=st.integers(), share=st.floats(allow_nan=False)),
)


@given(config=CONFIGS)
def test_the_settings_of_a_config_give_it_back(config: Outer) -> None:
    assert configure(Outer, settings_of(config)) == config


@given(value=st.text())
def test_any_value_is_set_or_refused(value: str) -> None:
    for name in ("name", "flag", "limit", "rate", "inner", "inner.size", value):
        try:
            configured(f"{name}={value}")
        except ConfigError:
            continue


def test_a_preset_is_found_by_name_or_by_path(tmp_path):
    (tmp_path / "mine.toml").write_text("epochs = 7")
    assert read_settings(preset_path("inceptionxml", "laptop"), [])["embedding"] == 128
    assert read_settings(preset_path("inceptionxml", str(tmp_path / "mine.toml")), ["epochs=8"]) == {"epochs": 8}
    with pytest.raises(ConfigError, match=r"no preset 'lapdog' for inceptionxml, .* are: .*laptop"):
        preset_path("inceptionxml", "lapdog")


PRESETS = sorted(Path(laconic.config.__file__).with_name("presets").glob("*/*.toml"))


@pytest.mark.parametrize("path", PRESETS, ids=str)
def test_every_preset_is_one_of_its_methods(path):
    assert config_of(path.parent.name, read_settings(path, []))


DATASETS = [path for path in PRESETS if path.stem[0].isupper()]


@pytest.mark.parametrize("path", DATASETS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_papers_dataset_is_trained_on_all_its_texts(path):
    assert config_of(path.parent.name, read_settings(path, [])).validation == 0


def test_the_names_of_methods_are_those_of_the_methods():
    assert tuple(METHODS) == METHOD_NAMES
    assert method_called("syncxml") == "inceptionxml+"
    for name in (*METHOD_NAMES, "syncxml"):
        check_method(name)
    with pytest.raises(ConfigError, match=r"there is no method 'magic'; known are: nearest, trees"):
        check_method("magic")
