"""The language of a data set, told by its function words."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from laconic.config import AUTO
from laconic.data import languages
from laconic.data.corpus import Corpus
from laconic.data.languages import are_unspaced, language_of, main_language
from laconic.data.stems import LANGUAGES
from laconic.data.text import Splitter
from laconic.methods.registry import config_of
from laconic.methods.train import train_model, with_language
from laconic.training.run import Run
from tests.planted import planted_texts

TEXTS = {
    "en": "A history of the war in the north",
    "fi": "Suomen ja Ruotsin historia, joka ei ole lyhyt",
    "de": "Die Geschichte der Stadt und das Leben in den Bergen",
    "fr": "Les oiseaux dans la forêt et une histoire pour les enfants",
    "sv": "Skolan och barnen: det är en bok om att läsa",
    "ru": "Книга о том, что это такое и как из него",
    "uk": "Книга та її читачі: що це таке і як її читати",
    "pl": "Historia miasta oraz ludzi, którzy się nie boją, jest krótka",
    "nl": "Het leven van een man die niet naar de stad ging",
}


@pytest.mark.parametrize("language", TEXTS)
def test_a_text_with_function_words_has_their_language(language: str) -> None:
    assert language_of(TEXTS[language]) == language


def test_a_text_without_function_words_has_none() -> None:
    assert language_of("Linux kernel 6.1") == ""
    assert language_of("") == ""
    assert language_of("日本語の本") == ""


def test_most_texts_decide() -> None:
    assert main_language([TEXTS["fi"]] * 70 + [TEXTS["sv"]] * 30) == "fi"
    assert main_language([TEXTS["fi"]] * 50 + [TEXTS["sv"]] * 50) == ""
    assert main_language([TEXTS["fi"]] * 5) == "", "too few to tell"
    assert main_language([TEXTS["fi"]] * 30 + ["Linux 6.1"] * 970) == "", "too few of all texts are known"


def test_texts_all_over_the_data_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(languages, "_LOOKED_AT", 60)
    assert main_language([TEXTS["fi"]] * 200 + [TEXTS["sv"]] * 801) == "sv"


def corpus_of(text: str) -> Corpus:
    corpus = planted_texts(num_labels=4, num_texts=60)
    split = corpus.split("train").rows(np.arange(40))
    return replace(corpus, splits={"train": replace(split, texts=[f"{one} {text}" for one in split.texts or ()])})


@pytest.mark.parametrize(("language", "chosen"), [("fi", "fi"), ("de", "de"), ("pl", "")])
def test_training_stems_by_the_language_of_its_texts(language: str, chosen: str) -> None:
    config = config_of("nearest", {"text": {"language": AUTO}})
    assert with_language(config, corpus_of(TEXTS[language])).text.language == chosen
    assert (chosen in LANGUAGES) == bool(chosen)


def test_a_model_knows_the_language_that_was_found() -> None:
    pytest.importorskip("snowballstemmer")
    corpus = corpus_of("talot talossa ja talon, joka ei ole se")
    model = train_model(corpus, "nearest", config_of("nearest", {"text": {"language": AUTO}}), Run.unkept())
    assert model.facts["config"]["text"]["language"] == "fi"
    assert model.splitter == Splitter(language="fi")
    assert model.vocabulary is not None
    assert "talo" in model.vocabulary.words
    assert "talossa" not in model.vocabulary.words


@pytest.mark.parametrize(
    "text",
    ["古代戦争のリアルタイム戦略ゲーム", "用于解析 XML 的程序库文件", "고대 전쟁 실시간 전략 게임", "ห้องสมุดสำหรับ XML"],
)
def test_texts_without_spaces_between_words_are_told_by_their_script(text: str) -> None:
    assert are_unspaced([text, text, "Linux kernel"])
    assert not are_unspaced([text, "Linux kernel"])  # half of them are not most


def test_texts_of_latin_letters_or_none_are_spaced() -> None:
    assert not are_unspaced(list(TEXTS.values()))
    assert not are_unspaced(["Ein Wörterbuch 日本", "6.1", ""])
    assert not are_unspaced([])
