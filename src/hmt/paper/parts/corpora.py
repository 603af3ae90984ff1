"""The main figure on other corpora: Europarl with news, where waiting matters, and IWSLT15.

As on Multi30k, all systems start from a multipath model.  That of Europarl begins with the weights
of the model that ships, because no training of a night reaches the quality at which waiting shows.
"""

from dataclasses import replace

from hmt.analysis.curves import Axes
from hmt.analysis.published import published
from hmt.paper.blocks import Block, Section, Text
from hmt.paper.parts.benchmarks import DEBATES, EUROPARL, IWSLT15, NEWS, NEWSTEST, TALKS, Benchmark
from hmt.paper.parts.comparison import Comparison, on
from hmt.paper.parts.systems import ITST_THRESHOLDS, RHOS, TUNING, Rival, Trained
from hmt.paper.plan import Part, Place, Step

CLAIM = "The paper has HMT above all others at every latency"
# After the start, multipath trains on for as long as the other systems' recipes: its settings, and
# its cost as a share of the start's.
AS_LONG = {
    EUROPARL: (("training.updates=600",), 600 / 1000),
    IWSLT15: (("training.updates=1500", "training.save_every=150"), 1500 / 4000),
}
TUNED = {EUROPARL: (), IWSLT15: TUNING}  # recipes of Europarl state everything themselves


def _rivals(corpus: str, benchmark: Benchmark, lowers: str, lags: str) -> tuple[Rival, ...]:
    """HMT, multipath, adaptive wait-k made of it, full, and one more adaptive system."""
    start = Trained(f"{corpus}/start", f"{corpus}/multipath", on=benchmark)
    as_long, share = AS_LONG[corpus]

    def tuned(name: str, sweep: dict[str, str], overrides: tuple[str, ...] = ()) -> Trained:
        recipe = f"{corpus}/{name}"
        return Trained(
            recipe, recipe, sweep, overrides, start=start, tuning=TUNED[corpus], on=benchmark
        )

    multipath = replace(tuned("multipath", {"k": lags}, as_long), share=share)
    adaptive = Trained(
        f"{corpus}/adaptive", f"{corpus}/adaptive", {"rho-a": RHOS}, made_of=(multipath,)
    )
    return (
        Rival("hmt", (tuned("hmt", {"lower": lowers}),), "lower drawn", is_core=True),
        Rival("multipath", (multipath,), "k drawn", is_core=True),
        Rival("adaptive", (replace(adaptive, on=benchmark),), "composed of the multipath model"),
        Rival("full", (tuned("full", {}),), "waits for the whole sentence"),
        Rival("itst", (tuned("itst", {"threshold": ITST_THRESHOLDS}),), "one model"),
    )


_DEBATES = _rivals(EUROPARL, DEBATES, "1,3,5,7,9", "1,3,5,7,9,11")
_TALKS = _rivals(IWSLT15, TALKS, "1,2,3,4,5,6", "1,2,3,5,7,9")
ON_DEBATES = Comparison("europarl-dev", on(_DEBATES, "europarl-dev"), tests_seconds=180.0)
ON_NEWS = Comparison("newstest2015", on(_DEBATES, "newstest2015", on=NEWS), tests_seconds=180.0)
# The text is tokenised already, so sacreBLEU applies no tokenizer, as in the paper.
ON_TALKS = Comparison(
    "iwslt15-tst2013",
    on(_TALKS, "iwslt15-tst2013"),
    Axes.named("bleu_tokenised_lc", "token.AL"),
)


def europarl_steps(place: Place) -> list[Step]:
    """Trained on debates; tested on debates of another period and on news."""
    return [*ON_DEBATES.steps(place), *ON_NEWS.steps(place)]


def europarl_core(place: Place) -> list[Step]:
    """HMT beside multipath."""
    return ON_DEBATES.steps(place, only_core=True)


def europarl(place: Place) -> Section:
    """A figure for each test set; the paper's HMT on newstest2015 is below the second."""
    debates = ON_DEBATES.blocks(place, "Europarl of another period: BLEU over AL in tokens")
    theirs = published("wmt15-base", ON_NEWS.axes)
    news = ON_NEWS.blocks(place, "newstest2015: BLEU over AL in tokens")
    blocks: list[Block] = []
    if debates:
        blocks += [Text("**Debates of another period (2,000 sentences)**"), *debates]
    if news:
        paper = ", ".join(f"{p.quality:.1f} at {p.latency:.2f}" for p in theirs.points)
        blocks += [
            Text("**newstest2015 (2,169 sentences)**"),
            *news,
            Text(f"HMT in the paper on newstest2015 (Base, 4.5 million pairs): {paper}."),
        ]
    verdict = f"{CLAIM}. On debates: {ON_DEBATES.standing(place)}."
    if news:
        verdict += f" On news: {ON_NEWS.standing(place)}."
    missing = [f"{name} on debates" for name in ON_DEBATES.missing(place)]
    missing += [f"{name} on news" for name in ON_NEWS.missing(place)]
    return Section(blocks, verdict, missing)


def iwslt15_steps(place: Place) -> list[Step]:
    """Trained on the 30,000 pairs that are available."""
    return ON_TALKS.steps(place)


def iwslt15_core(place: Place) -> list[Step]:
    """HMT beside multipath."""
    return ON_TALKS.steps(place, only_core=True)


def iwslt15(place: Place) -> Section:
    """The figure on tst2013, the paper's points beside it."""
    blocks = ON_TALKS.blocks(place, "tst2013: BLEU of tokenised text over AL in tokens")
    if blocks:
        theirs = published("iwslt15-small", ON_TALKS.axes)
        paper = ", ".join(f"{p.quality:.1f} at {p.latency:.2f}" for p in theirs.points)
        blocks.append(Text(f"HMT in the paper on tst2013 (133,317 pairs): {paper}."))
    return Section(blocks, ON_TALKS.verdict(place, CLAIM), ON_TALKS.missing(place))


PARTS = (
    Part(
        "europarl",
        "A second benchmark: Europarl German-English",
        "Figure 4 (b): WMT15 German-English, tested on newstest2015; here trained on Europarl "
        "alone, a part of its training text",
        europarl_steps,
        europarl,
        ("corpora",),
        europarl_core,
        (EUROPARL, NEWSTEST),
    ),
    Part(
        "iwslt15",
        "A third benchmark: IWSLT15 English-Vietnamese",
        "Figure 4 (a): IWSLT15 English-Vietnamese with a vocabulary of words, tested on tst2013; "
        "here trained on 30,000 of its 133,317 pairs",
        iwslt15_steps,
        iwslt15,
        ("corpora",),
        iwslt15_core,
        (IWSLT15,),
    ),
)
