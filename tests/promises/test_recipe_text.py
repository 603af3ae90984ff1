"""The text of the model that ships: pairs stay pairs, and what must be copied is the same."""

import re
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from random import Random
from types import ModuleType

import pytest

import hmt

RECIPE = Path(__file__).parents[2] / "recipes" / "german-english"
MODULES = (
    "amounts",
    "clean",
    "forms",
    "names",
    "places",
    "slots",
    "swap",
    "templates",
    "words",
    "make_text",
    "restore",
)
PAIRS = [(f"Satz Nummer {n}, ja.", f"Sentence number {n}, yes.") for n in range(2, 400)]


@pytest.fixture(scope="module")
def recipe() -> Iterator[dict[str, ModuleType]]:
    """The modules of the recipe, which is no package; forgotten afterwards."""
    sys.path.insert(0, str(RECIPE))
    try:
        yield {name: import_module(name) for name in MODULES}
    finally:
        sys.path.remove(str(RECIPE))
        for name in MODULES:
            sys.modules.pop(name, None)


def digits(text: str) -> list[str]:
    return re.findall(r"\d+", text)


def test_running_text_uses_every_pair_once_and_keeps_sides_together(recipe):
    lines = [None if n % 9 == 0 else pair for n, pair in enumerate(PAIRS)]
    made = list(recipe["forms"].in_order(lines, Random(1)))
    assert all(digits(source) == digits(target) for _, source, target in made)
    used = [number for _, source, _ in made for number in digits(source)]
    assert used == [digits(pair[0])[0] for pair in lines if pair]
    assert {form for form, _, _ in made} >= {"as written", "heard", "joined", "joined, heard"}


def test_lines_with_a_gap_between_them_are_never_joined(recipe):
    lines = [pair if n % 2 else None for n, pair in enumerate(PAIRS)]
    made = recipe["forms"].in_order(lines, Random(1))
    assert all(len(digits(source)) == 1 for _, source, _ in made)


def test_grouped_uses_every_pair_once(recipe):
    made = list(recipe["forms"].grouped(PAIRS, Random(1)))
    assert all(digits(source) == digits(target) for _, source, target in made)
    used = sorted(int(number) for _, source, _ in made for number in digits(source))
    assert used == list(range(2, 400))


@pytest.mark.parametrize(
    ("written", "heard"),
    [
        ("„Na ja“, sagte er – um 14:35 Uhr!", "na ja sagte er um 14:35 uhr"),
        ("Am 3. Mai kostet es 12,50 Euro.", "am 3. mai kostet es 12,50 euro"),
        ("Wir waren im Jahr 1990.", "wir waren im jahr 1990"),
        ("Die E-Mail ging an a.b@example.com.", "die e-mail ging an a.b@example.com"),
    ],
)
def test_heard(recipe, written, heard):
    assert recipe["forms"].heard(written) == heard


def test_only_the_source_loses_capitals_and_marks(recipe):
    targets = {target for _, target in PAIRS}
    for draw in range(100):
        assert recipe["forms"].single(PAIRS[3], draw / 100)[2] in targets


def test_names_are_replaced_by_the_same_on_both_sides(recipe):
    swap = recipe["swap"].swap
    for seed in range(200):
        source, target = swap(("Toms Hund mag Tom.", "Tom's dog likes Tom."), Random(seed))
        name = target.split(" likes ")[1].rstrip(".")
        assert source.endswith(f" mag {name}.")
        assert target.startswith(f"{name}'s dog ")
        assert source.startswith((f"{name}s Hund", f"{name}' Hund"))


def test_places_are_replaced_by_their_translations(recipe):
    known = dict(recipe["places"].COUNTRIES)
    for seed in range(50):
        pair = recipe["swap"].swap(
            ("Er kam aus Australien.", "He came from Australia."), Random(seed)
        )
        german, english = (side.rstrip(".").split(" ", 3)[3] for side in pair)
        assert known[german] == english


@pytest.mark.parametrize(
    "pair",
    [
        ("Um 2.30 Uhr waren es 1.250 Leute.", "At 2:30 there were 1,250 people."),
        ("Es sind 3,5 Prozent von 47.", "It is 3.5 percent of 47."),
        ("Das war 1998.", "That was 1998."),
    ],
)
def test_numbers_are_replaced_by_the_same_on_both_sides(recipe, pair):
    changed = {recipe["swap"].swap(pair, Random(seed)) for seed in range(50)}
    assert len(changed) > 20
    assert all(digits(source) == digits(target) for source, target in changed)
    shapes = {tuple(re.sub(r"\d+", "0", side) for side in found) for found in changed}
    assert shapes == {tuple(re.sub(r"\d+", "0", side) for side in pair)}


def test_numbers_of_one_side_only_stay(recipe):
    pair = ("Er kam um halb drei.", "He came at 2:30.")
    assert recipe["swap"].swap(pair, Random(1)) == pair


def test_templates_fill_on_both_sides(recipe):
    templates = recipe["templates"]
    spoken = templates.read_templates(*templates.SPEECH)
    assert len(spoken) > 250
    for template in [*spoken, *templates.read_templates("copied")]:
        german, english = (sorted(set(templates.SLOT.findall(side))) for side in template)
        assert german == english, template
        for seed in range(5):
            filled = templates.fill(template, Random(seed))
            assert all(side and not re.search(r"[{}\t]", side) for side in filled), filled


def test_slots_agree_in_their_digits(recipe):
    slots = recipe["slots"].SLOTS
    for name in ("number", "big", "decimal", "time", "year", "street", "phone", "email", "code"):
        for seed in range(200):
            german, english = slots[name](Random(seed))
            assert digits(german) == digits(english), (name, german, english)


def test_the_same_seed_gives_the_same_text(recipe):
    def text(seed: int) -> list[tuple[str, str, str]]:
        return [
            *recipe["templates"].from_templates(200, PAIRS, Random(seed)),
            *recipe["templates"].to_copy(50, PAIRS, Random(seed)),
            *recipe["make_text"].everyday(PAIRS, Random(seed)),
        ]

    assert text(1) == text(1) != text(2)


@pytest.mark.parametrize(
    ("source", "target", "why"),
    [
        ("Das ist ein guter Vorschlag.", "That is a good proposal.", ""),
        ("This is not what we want.", "This is not what we want.", "not translated"),
        ("Das ist das Ende der Aussprache über den Haushalt.", "Yes.", "lengths"),
        ("We have the right to say it is.", "We are entitled to say that it is.", "language"),
        ("Es waren 1998 genau 345 Fälle.", "In 2004 there were 712 cases.", "numbers"),
        ("12 - 13 / 14 (A)", "12 - 13 / 14 (A)", "not translated"),
    ],
)
def test_faults(recipe, source, target, why):
    assert recipe["clean"].fault(source, target) == why


def test_one_sided_stage_directions_go(recipe):
    pair = ("Das ist gut. (Beifall)", "That is good.")
    assert recipe["clean"].tidy(*pair) == ("Das ist gut.", "That is good.")
    both = ("Das ist gut. (Beifall)", "That is good. (Applause)")
    assert recipe["clean"].tidy(*both) == both


def test_what_is_written_has_one_kind_of_mark(recipe):
    source, target = recipe["clean"].tidy("Wie geht’s, „Tom“?", "How’s it going, “Tom”?")
    assert source == "Wie geht’s, „Tom“?"
    assert target == 'How\'s it going, "Tom"?'


SPOKEN = [
    "ich habe keine zeit was machst du morgen",
    "wir haben im garten gegessen das wetter war schön",
    "er sagt dass er morgen nicht kommen kann weil er arbeiten muss",
    "um neun uhr morgens fährt der zug nach berlin ab die fahrkarte kostet 35 euro",
    "hast du das buch gelesen das ich dir gegeben habe ja es war gut",
    "geh arbeiten lucas",
]


def test_restored_lines_are_what_a_session_gives_the_model(recipe: dict[str, ModuleType]) -> None:
    model = hmt.load()
    restorer = recipe["restore"].Restorer(model.segmenter, model.source_tokenizer)
    restored = restorer.restore([line.split() for line in SPOKEN])
    for line, text in zip(SPOKEN, restored, strict=True):
        session = model.session()
        session.push(line)
        session.finish()
        [whole] = model.translate([text])
        read = [token for record in session.records for token in record.source_tokens]
        assert [t for t in read if t != "</s>"] == whole.source_tokens[:-1], text
    assert sum(text.count(",") for text in restored) and any("?" in text for text in restored)
    assert any(text.count(".") > 1 for text in restored), "a border was found"


def test_lines_are_restored_in_their_places(recipe: dict[str, ModuleType], tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.mkdir()
    german = [*SPOKEN, "Das ist gut.", "Wie geht es dir?"] * 20
    for name in ("train.de", "train.en", "valid.de", "valid.en"):
        lines = german if name == "train.de" else [f"{n}" for n in range(len(german))]
        (text / name).write_text("\n".join(lines) + "\n")
    recipe["restore"].main(hmt.models.model.PRETRAINED, text, tmp_path / "made", 0.08)
    made = (tmp_path / "made" / "train.de").read_text().splitlines()
    heard = recipe["forms"].heard
    # A restored ordinal or a mark inside a line is no difference in words.
    assert [heard(line).replace(".", "") for line in made] == [
        heard(line).replace(".", "") for line in german
    ]
    changed = sum(a != b for a, b in zip(made, german, strict=True))
    assert 0.4 * len(german) < changed < 0.7 * len(german)
    for name in ("train.en", "valid.de", "valid.en"):
        assert (tmp_path / "made" / name).read_bytes() == (text / name).read_bytes()
