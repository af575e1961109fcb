"""Find the languages that texts of a data set are in, by the function words they have, or by their script."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence

from laconic.data.text import clean

_LOOKED_AT = 20_000  # texts, from all over the data: files are often sorted by language
_MOST = 0.6  # of the texts whose language is known must be in one for it to be the data's
_FEWEST = 20  # texts whose language must be known
_KNOWN = 0.05  # of the texts must have a language for any to be the data's
_UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+")
_WORDS = {  # of each language that can be stemmed, and of some that are taken for one of them, frequent function words
    "ar": "في من على إلى أن التي الذي عن مع هذا هذه كان بين أو ما لا كل بعد قبل ثم",
    "bg": "и на за да от се с е по в не са като при или до което които между който към чрез върху",
    "ca": "el la els les de del dels i en per amb una un que és no al als aquest aquesta més sobre entre com des",
    "cs": "a v na pro je se s z do k o ve nebo od jako které který která jsou není po pod mezi při ze pomocí být",
    "da": "og i at det en et den til er som på de med af for ikke der var fra har om kan eller efter ved bruges mellem",
    "de": "der die das und in den von zu mit für ist im auf ein eine des dem nicht sich als auch aus bei nach zur zum",
    "el": "και το του της η ο την τα για με από στο στη στην των είναι που τις οι σε ένα μια θα δεν να",
    "en": "the of and to in for a is on with that by from as an it are be this or at was using about between",
    "es": "el la los las de del y en que un una para por con es se no al como su más lo sobre entre desde",
    "eu": "eta da du ez bat ere edo dira zen izan bere dute baina duen hau horren arteko buruzko egin dago",
    "fi": "ja on ei se että oli ovat hän mutta tai kuin joka sekä myös kun niin sen ole jotka vuoden välillä sekä",
    "fr": "le la les de des du et en un une pour dans par sur avec est au aux que qui ce cette ou pas plus entre",
    "ga": "agus an na ar le go is i a do ag bhí sé atá den don faoi mar nó ina chun seo sin",
    "hi": "के का की में है और से को पर ने कि यह एक हैं भी लिए नहीं था तथा इस द्वारा",
    "hu": "a az és hogy nem is egy van meg ezt azt de csak volt mint már vagy között számára által való szerint",
    "hy": "և է են որ մեջ համար հետ այս մի նաև կամ իր էր ից դեպի մասին",
    "id": "yang dan di untuk dengan dari ini itu pada adalah dalam tidak ke oleh atau sebagai akan juga antara telah",
    "it": "il la lo i gli le di del della dei delle e in un una per con che è da non al alla nel nella sono come su",
    "lt": "ir yra kad iš į su tai buvo kaip apie bei per už dėl ar arba jo ne prie tarp nuo",
    "ne": "को र मा छ का ले हो लागि पनि यो एक भएको गर्न गर्ने तथा वा थियो बाट सँग भने",
    "nl": "de het een en van in is op te dat voor met zijn die niet aan er om ook als door naar bij uit tussen over",
    "no": "og i det er på en til som av for med at de ikke et den har om fra var eller ved etter mellom hvordan mot",
    "pl": "i w z na do dla jest się nie o od po przez lub oraz jako który która które są ze dla za przy między używany",
    "pt": "o a os as de do da dos das e em um uma para por com que é não no na se mais ao como entre sobre",
    "ro": "și în de la cu pe un o care este din pentru nu mai sau au prin după ca fost între despre această",
    "ru": "и в на с по для не что это как из к от за о у при или его до также между его под со",
    "sk": "a v na pre je sa s z do k o vo alebo od ako ktoré ktorý ktorá sú nie po pod medzi pri zo pomocou byť",
    "sr": "и у је на да се за са од као не су који или из по до који између о i u je na da se za sa od kao ne su koji",
    "sv": "och i att det en ett som på är av för med den till inte om har de från var eller kan mellan hur mot",
    "ta": "மற்றும் ஒரு இந்த என்று அது அந்த என்ற உள்ள இது ஆகும் அல்லது இருந்து மீது",
    "tr": "ve bir bu için ile de da olarak olan daha çok gibi en ne kadar sonra veya arasında göre üzerine",
    "uk": "і в на з та для не що це як із до від за о у при або його також між під зі й є яка який які",
    "vi": "và của các một cho là trong với được không những này có để từ theo tại trên",
    "yi": "און די דער פֿון פון אין איז דאָס צו מיט נישט ניט אַ א װאָס וואס אויף",
}
_LANGUAGES_OF: dict[str, tuple[str, ...]] = {}
for _code, _list in _WORDS.items():
    for _word in dict.fromkeys(_list.split()):
        _LANGUAGES_OF[_word] = (*_LANGUAGES_OF.get(_word, ()), _code)


def main_language(texts: Sequence[str]) -> str:
    """Return the code of the language that most texts are in; empty where there is none, or it cannot be told."""
    looked_at = _some(texts)
    found = Counter(filter(None, map(language_of, looked_at)))
    best, count = (found.most_common(1) or [("", 0)])[0]
    enough = found.total() >= max(_FEWEST, _KNOWN * len(looked_at))
    return best if enough and count >= _MOST * found.total() else ""


def _some(texts: Sequence[str]) -> Sequence[str]:
    """Return texts at even distances."""
    return texts[:: -(-len(texts) // _LOOKED_AT) or 1]


def are_unspaced(texts: Sequence[str]) -> bool:
    """Return whether most texts are in scripts whose words no space parts from each other, or from their endings.

    These are Chinese characters, kana, Hangul, Thai, Lao, Khmer and Burmese.
    """
    looked_at = _some(texts)
    return 2 * sum(map(_is_unspaced, looked_at)) > len(looked_at)


def _is_unspaced(text: str) -> bool:
    return not text.isascii() and 2 * len("".join(_UNSPACED.findall(text))) > sum(map(str.isalpha, text))


def language_of(text: str) -> str:
    """Return the code of the language that has most of a text's function words; empty without any, or with a tie.

    A word of several languages counts for each of them as a part.
    """
    scores: defaultdict[str, float] = defaultdict(float)
    for word in clean(text):
        languages = _LANGUAGES_OF.get(word, ())
        for language in languages:
            scores[language] += 1 / len(languages)
    best = sorted(scores, key=lambda language: -scores[language])[:2]
    return best[0] if best and scores[best[0]] != scores[best[-1]] * (len(best) > 1) else ""
