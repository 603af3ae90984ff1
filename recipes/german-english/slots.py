"""What the slots of a template may hold: pairs of German and English, drawn at random."""

from collections.abc import Callable
from pathlib import Path
from random import Random

import words
from amounts import (
    big,
    clock,
    date,
    day,
    decimal,
    digits,
    fever,
    few,
    height,
    number,
    percent,
    price,
    same,
    small,
    time,
    version,
    year,
)
from names import (
    draw_female,
    draw_full,
    draw_male,
    draw_name,
    draw_surname,
    invented,
)
from places import draw_city, draw_country

Pair = tuple[str, str]

PLAIN = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "ß": "ss", "ó": "o"})
COPIED = tuple(
    (Path(__file__).parent / "templates" / "copied.txt").read_text(encoding="utf-8").splitlines()
)


def street(rng: Random) -> Pair:
    """A street and a house number, in German on both sides."""
    kind = rng.choice(("straße", "straße", "allee", "gasse"))
    first = rng.choice(words.STREETS) if rng.random() < 0.7 else invented(rng, most=3).capitalize()
    return same(f"{first}{kind} {rng.randint(1, 199)}")


def phone(rng: Random) -> Pair:
    """A telephone number."""
    area = rng.choice(("0171", "0160", "030", "040", "089", "0221", f"0{rng.randint(200, 9999)}"))
    return same(f"{area} {rng.randint(100_000, 99_999_999)}")


def code(rng: Random) -> Pair:
    """A code of capital letters and digits."""
    letters = "".join(rng.choice("ABCDEFGHJKLMNPQRSTUVWXYZ") for _ in range(rng.randint(1, 3)))
    value = rng.randint(2, 9999)
    return same(
        rng.choice((f"{letters}{value}", f"{letters}-{value}", f"{letters}{value % 9}-{value}"))
    )


def train(rng: Random) -> Pair:
    """A train by its kind and number."""
    return same(f"{rng.choice(('ICE', 'IC', 'RE', 'RB', 'S', 'EC'))} {rng.randint(2, 2999)}")


def room(rng: Random) -> Pair:
    """A room number."""
    value = str(rng.randint(2, 499))
    return same(
        rng.choice((value, value, f"{rng.choice('ABCDEF')}{value}", f"{value[0]}.{value[-1]}4"))
    )


def email(rng: Random) -> Pair:
    """An e-mail address."""
    host = rng.choice((*words.HOSTS, f"{invented(rng, most=3)}.{rng.choice(('de', 'com', 'org'))}"))
    user = draw_surname(rng)[0].lower().replace("'", "")
    return same(
        rng.choice((f"{user}@{host}", f"{invented(rng, most=2)}.{user}@{host}")).translate(PLAIN)
    )


def url(rng: Random) -> Pair:
    """A web address."""
    host = f"{invented(rng, most=3)}.{rng.choice(('de', 'com', 'org', 'net', 'eu'))}"
    return same(
        rng.choice((f"www.{host}", host, f"https://{host}/{invented(rng, most=2)}")).translate(
            PLAIN
        )
    )


def word(rng: Random) -> Pair:
    """A word to be copied unchanged, in lower case."""
    return same(rng.choice(words.LOANS) if rng.random() < 0.4 else invented(rng))


def company(rng: Random) -> Pair:
    """A company or a product."""
    return same(
        rng.choice(words.COMPANIES) if rng.random() < 0.6 else invented(rng, most=3).capitalize()
    )


def product(rng: Random) -> Pair:
    """A product or a program that takes no article."""
    return same(rng.choice(words.PRODUCTS) if rng.random() < 0.7 else invented(rng).capitalize())


def copied(rng: Random) -> Pair:
    """A phrase of another language, or a string that means nothing in any language."""
    return same(rng.choice(COPIED))


def quoted(rng: Random) -> Pair:
    """A phrase to be copied, without its final punctuation mark."""
    return same(
        rng.choice([text for text in COPIED if text[-1].isalnum() or len(text) > 3]).rstrip(" .!?")
    )


def babble(rng: Random) -> Pair:
    """Words of other languages and scripts, in any order."""
    draw = rng.random()
    if draw < 0.4:
        found = [word for _ in range(3) for word in rng.choice(COPIED).split()]
        return same(" ".join(rng.sample(found, min(len(found), rng.randint(1, 7)))))
    if draw < 0.7:
        return same(" ".join(invented(rng) for _ in range(rng.randint(1, 5))).capitalize())
    letters = rng.choice(words.SCRIPTS)
    sizes = [rng.randint(2, 9) for _ in range(rng.randint(1, 5))]
    text = " ".join("".join(rng.choices(letters, k=size)) for size in sizes)
    return same(text.capitalize())


def mistern(rng: Random) -> Pair:
    """A person by surname, where German uses the accusative or dative."""
    german, english = mister(rng)
    return german.replace("Herr ", "Herrn "), english


def mister(rng: Random) -> Pair:
    """A person by surname, as the subject or in an address."""
    name = draw_surname(rng)[0]
    return rng.choice(((f"Herr {name}", f"Mr {name}"), (f"Frau {name}", f"Ms {name}")))


def _from(pairs: tuple[Pair, ...]) -> Callable[[Random], Pair]:
    """A slot that holds one of the pairs."""
    return lambda rng: rng.choice(pairs)


SLOTS: dict[str, Callable[[Random], Pair]] = {
    "name": draw_name,
    "man": draw_male,
    "woman": draw_female,
    "full": draw_full,
    "surname": draw_surname,
    "mister": mister,
    "city": draw_city,
    "country": draw_country,
    "number": number,
    "big": big,
    "decimal": decimal,
    "few": few,
    "digits": digits,
    "time": time,
    "clock": clock,
    "day": day,
    "date": date,
    "year": year,
    "price": price,
    "percent": percent,
    "street": street,
    "phone": phone,
    "code": code,
    "train": train,
    "room": room,
    "email": email,
    "url": url,
    "word": word,
    "company": company,
    "product": product,
    "copied": copied,
    "quoted": quoted,
    "mistern": mistern,
    "small": small,
    "version": version,
    "babble": babble,
    "height": height,
    "fever": fever,
    "month": _from(words.MONTHS),
    **{name: _from(pairs) for name, pairs in words.LISTS.items()},
}
