"""New names, places and numbers for a pair, the same on both sides, to teach copying."""

import re
from collections.abc import Callable
from random import Random

from names import FEMALE, MALE, OLD_ACQUAINTANCES, draw_female, draw_male
from places import CITIES, COUNTRIES, draw_city, draw_country
from words import listed

Pair = tuple[str, str]
Draw = Callable[[Random], Pair]

WORD = re.compile(r"[^\W\d_]+")
NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")
EXCHANGED = str.maketrans(".,", ",.")
# Names that are also words in one of the two languages, or parts of longer names.
AMBIGUOUS = frozenset(
    listed("""
    August York Washington Lincoln Bosnien Mark Will May Rose Rosa Roman Art Ernst Wolf Christian
    Grace Kai Jan Nice Essen
""")
)


def _known() -> dict[str, dict[str, Draw]]:
    """For each German name, its English forms and how to draw another name of its kind."""
    known: dict[str, dict[str, Draw]] = {}
    people = [(name, name, draw_male) for name in MALE] + [(n, n, draw_female) for n in FEMALE]
    people += [(de, en, draw_male if man else draw_female) for de, en, man in OLD_ACQUAINTANCES]
    places = [(*city, draw_city) for city in CITIES] + [(*c, draw_country) for c in COUNTRIES]
    for german, english, draw in [*people, *places]:
        if german not in AMBIGUOUS and " " not in german + english and "-" not in german:
            known.setdefault(german, {}).setdefault(english, draw)
    return known


KNOWN = _known()


def swap(pair: Pair, rng: Random) -> Pair:
    """The pair with other names and numbers; the same pair if there is nothing to replace."""
    return swap_numbers(swap_names(pair, rng), rng)


def swap_names(pair: Pair, rng: Random) -> Pair:
    """Replace people and places that are named on both sides."""
    source, target = pair
    spoken_of = set(WORD.findall(target))
    german: dict[str, str] = {}
    english: dict[str, str] = {}
    for word in WORD.findall(source):
        name = word if word in KNOWN else word.removesuffix("s")
        for form, draw in KNOWN.get(name, {}).items():
            if form in spoken_of and name not in german and form not in english:
                german[name], english[form] = draw(rng)
    if not german:
        return pair
    return _renamed(source, german, genitive=True), _renamed(target, english, genitive=False)


def swap_numbers(pair: Pair, rng: Random) -> Pair:
    """Replace numbers by others of the same kind, if both sides have the same ones."""
    source, target = pair
    if not any(map(str.isdigit, source)) or re.search(r"\d[a-z]", target):
        return pair
    found = [_plain(match) for match in NUMBER.finditer(source)]
    if sorted(found) != sorted(NUMBER.findall(target)):
        return pair
    new = {number: other_number(number, rng) for number in found}

    def german(match: re.Match[str]) -> str:
        number = new[_plain(match)]
        if ":" in number:
            return number if ":" in match[0] else number.replace(":", ".")
        return number.translate(EXCHANGED)

    return NUMBER.sub(german, source), NUMBER.sub(lambda match: new[match[0]], target)


def other_number(number: str, rng: Random) -> str:
    """A number of the same shape: a time stays a time, a year a year, a day of the month a day."""
    if ":" in number:
        hours = rng.randint(1, 12) if int(number.split(":")[0]) <= 12 else rng.randint(13, 23)
        return f"{hours}:{rng.randint(0, 59):02}" if rng.random() < 0.7 else f"{hours}:30"
    if not number.isdigit():
        digits = [rng.choice("0123456789") if c.isdigit() else c for c in number]
        return "".join([rng.choice("123456789"), *digits[1:]])
    value = int(number)
    if value < 2:
        return number  # grammar depends on 0 and 1
    for low, high in ((2, 12), (13, 31), (32, 99), (100, 999)):
        if value <= high:
            return str(rng.randint(low, high))
    if 1000 <= value <= 2100:
        return str(
            rng.randint(1850, 2030) if value > 1400 and value % 100 else rng.randint(1, 9) * 1000
        )
    return "".join([rng.choice("123456789"), *(rng.choice("0123456789") for _ in number[1:])])


def _renamed(text: str, names: dict[str, str], *, genitive: bool) -> str:
    """`text` with all the names replaced in one pass; German genitives follow the new name."""
    ending = r"(s?)" if genitive else "()"
    pattern = re.compile(rf"\b({'|'.join(map(re.escape, names))}){ending}\b")

    def other(match: re.Match[str]) -> str:
        name = names[match[1]]
        if not match[2]:
            return name
        return name + ("'" if name[-1] in "sßxz" else "s")

    return pattern.sub(other, text)


def _plain(match: re.Match[str]) -> str:
    """A German number as English writes it: 6.30 Uhr is 6:30, 1.000 is 1,000."""
    number = match[0]
    if ":" in number:
        return number
    if match.string.startswith(" Uhr", match.end()) and re.fullmatch(r"\d{1,2}\.\d\d", number):
        return number.replace(".", ":")
    return number.translate(EXCHANGED)
