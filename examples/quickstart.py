"""Label short texts with laconic: fit, predict, score, save, load. Runs in seconds, without any download."""

from tempfile import TemporaryDirectory

from laconic import Laconic

TEXTS = [
    ("real-time strategy game", ["games", "strategy"]),
    ("turn-based strategy in space", ["games", "strategy"]),
    ("puzzle game for children", ["games", "education"]),
    ("vocabulary trainer for children", ["education"]),
    ("editor for photos and other images", ["graphics"]),
    ("vector graphics editor", ["graphics"]),
    ("fast web server", ["web", "server"]),
    ("mail server for large sites", ["mail", "server"]),
]
LABEL_TEXTS = {"web": "pages, browsers and HTTP", "mail": "letters and newsletters"}

texts, labels = zip(*TEXTS, strict=True)
model = Laconic("nearest").fit(texts, labels, LABEL_TEXTS)  # "inceptionxml" trains, and needs more texts than these

print(model.predict("a strategy game about newsletters", k=3))
print(model.predict(["image editor", "server"], k=2, block=["web"]))
print({name: round(model.evaluate(texts, labels)[name], 1) for name in ("P@1", "nDCG@5", "PSP@5")})

with TemporaryDirectory() as folder:
    model.save(f"{folder}/model")  # `laconic predict` and `laconic evaluate` read this folder too
    print(Laconic.load(f"{folder}/model").predict("a server for mail", k=1, allow=["mail", "web"]))
