"""Stem words by the rules of their language (Snowball)."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache

from laconic.errors import ConfigError, install_hint

LANGUAGES = {  # codes of ISO 639-1, and Snowball's names
    "ar": "arabic",
    "ca": "catalan",
    "da": "danish",
    "de": "german",
    "el": "greek",
    "en": "english",
    "es": "spanish",
    "eu": "basque",
    "fi": "finnish",
    "fr": "french",
    "ga": "irish",
    "hi": "hindi",
    "hu": "hungarian",
    "hy": "armenian",
    "id": "indonesian",
    "it": "italian",
    "lt": "lithuanian",
    "ne": "nepali",
    "nl": "dutch",
    "no": "norwegian",
    "pt": "portuguese",
    "ro": "romanian",
    "ru": "russian",
    "sr": "serbian",
    "sv": "swedish",
    "ta": "tamil",
    "tr": "turkish",
    "yi": "yiddish",
}
_KEPT = 1 << 18  # words whose stems are remembered


@cache
def stemmer_of(language: str) -> Callable[[str], str]:
    """Return what stems a word of that language; stems of frequent words are computed once."""
    try:
        import snowballstemmer
    except ModuleNotFoundError:
        raise ConfigError(
            f"text.language={language} needs snowballstemmer, which is not installed; {install_hint('languages')}"
        ) from None
    return lru_cache(_KEPT)(snowballstemmer.stemmer(LANGUAGES[language]).stemWord)
