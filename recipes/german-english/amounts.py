"""Amounts, times and dates as German and English write and say them."""

from random import Random

import words

Pair = tuple[str, str]


def same(text: str) -> Pair:
    """The same text on both sides."""
    return text, text


def counted(value: float, decimals: int = 0) -> Pair:
    """A number in digits: 1.234,5 in German, 1,234.5 in English."""
    english = f"{value:,.{decimals}f}"
    return english.translate(str.maketrans(".,", ",.")), english


def number(rng: Random) -> Pair:
    """A whole number above one, mostly small, without a thousands separator."""
    return same(str(rng.randint(*rng.choice(((2, 12), (2, 99), (2, 99), (10, 999), (100, 999))))))


def small(rng: Random) -> Pair:
    """A platform number, or somebody's age."""
    return same(str(rng.randint(2, rng.choice((12, 40)))))


def version(rng: Random) -> Pair:
    """The version of a program."""
    return same(f"{rng.randint(1, 20)}.{rng.randint(0, 20)}")


def big(rng: Random) -> Pair:
    """A large number of people or things."""
    kind = rng.random()
    if kind < 0.55:
        return counted(rng.choice((rng.randint(1001, 9999), rng.randint(10, 999) * 1000)))
    if kind < 0.65:
        return counted(rng.randint(10_000, 9_999_999))
    german, english = counted(rng.randint(11, 99) / 10, 1) if kind < 0.8 else number(rng)
    if kind > 0.95:
        german, english = rng.choice(words.COUNTS[:11])
    if rng.random() < 0.6:
        return f"{german} Millionen", f"{english} million"
    return f"{german} Milliarden", f"{english} billion"


def decimal(rng: Random) -> Pair:
    """A number with one or two decimals."""
    places = rng.choice((1, 1, 2))
    return counted(rng.randint(11, 9999) / 10**places, places)


def height(rng: Random) -> Pair:
    """How tall a person is, in metres."""
    return counted(rng.randint(150, 205) / 100, 2)


def fever(rng: Random) -> Pair:
    """The temperature of a patient."""
    return counted(rng.randint(375, 412) / 10, 1)


def few(rng: Random) -> Pair:
    """A number in words."""
    return rng.choice(words.COUNTS[:11] if rng.random() < 0.6 else words.COUNTS)


def digits(rng: Random) -> Pair:
    """A number spelled digit by digit."""
    drawn = [rng.choice(words.DIGITS) for _ in range(rng.randint(3, 7))]
    return " ".join(d for d, _ in drawn), " ".join(e for _, e in drawn)


def time(rng: Random) -> Pair:
    """Hours and minutes in digits."""
    return same(f"{rng.randint(0, 23)}:{rng.choice((0, 15, 30, 45, *range(1, 60))):02}")


def clock(rng: Random) -> Pair:
    """A time of day as people say it; follows "um" and "at"."""
    kind = rng.random()
    hour = rng.randint(2, 11)
    (german, english), (next_german, _) = words.COUNTS[hour - 2], words.COUNTS[hour - 1]
    if kind < 0.15:
        return f"{german} Uhr", f"{english} o'clock"
    if kind < 0.25:
        return f"halb {next_german}", f"half past {english}"
    if kind < 0.35:
        side = rng.choice((("nach", "past"), ("vor", "to")))
        return f"Viertel {side[0]} {german}", f"a quarter {side[1]} {english}"
    if kind < 0.45:
        minutes = rng.choice((("fünf", "five"), ("zehn", "ten"), ("zwanzig", "twenty")))
        side = rng.choice((("nach", "past"), ("vor", "to")))
        return f"{minutes[0]} {side[0]} {german}", f"{minutes[1]} {side[1]} {english}"
    if kind < 0.6:
        value = rng.randint(6, 23)
        return f"{value} Uhr", f"{value} a.m." if value < 12 else f"{(value - 1) % 12 + 1} p.m."
    shown = time(rng)[0]
    if kind < 0.75:
        hours, minutes_ = shown.split(":")
        if minutes_ != "00":
            return f"{hours} Uhr {int(minutes_)}", shown
    return f"{shown} Uhr", shown


def day(rng: Random) -> Pair:
    """A day of the year; follows "am", "vom" or "zum", and "on", "from" or "to"."""
    value = rng.randint(1, 28)
    german, english = rng.choice(words.MONTHS)
    if rng.random() < 0.3:
        return f"{words.ORDINALS[value - 1]} {german}", f"{value} {english}"
    return f"{value}. {german}", f"{value} {english}"


def date(rng: Random) -> Pair:
    """A date with its year."""
    german, english = day(rng)
    value = year(rng)[0]
    return f"{german} {value}", f"{english} {value}"


def year(rng: Random) -> Pair:
    """A year, mostly a recent one."""
    return same(str(rng.choice((rng.randint(1500, 2050), rng.randint(1930, 2035)))))


def price(rng: Random) -> Pair:
    """An amount of money above one."""
    kind = rng.random()
    whole = rng.choice((rng.randint(2, 99), rng.randint(2, 999)))
    cents = rng.choice((50, 99, 90, 95, rng.randint(10, 99)))
    if kind < 0.3:
        return f"{whole},{cents} Euro", f"{whole}.{cents} euros"
    if kind < 0.5:
        return f"{whole} Euro", f"{whole} euros"
    if kind < 0.6:
        return f"{whole} Euro {cents}", f"{whole}.{cents} euros"
    if kind < 0.7:
        return f"{whole},{cents} €", f"€{whole}.{cents}"
    if kind < 0.8:
        german, english = few(rng)
        return f"{german} Euro", f"{english} euros"
    if kind < 0.9:
        german, english = counted(rng.randint(11, 990) * 100)
        return f"{german} Euro", f"{english} euros"
    currency = rng.choice(words.CURRENCIES)
    return f"{whole} {currency[0]}", f"{whole} {currency[1]}"


def percent(rng: Random) -> Pair:
    """A percentage."""
    german, english = counted(rng.randint(1, 999) / 10, 1)
    if rng.random() < 0.5:
        german, english = same(str(rng.randint(2, 99)))
    if rng.random() < 0.15:
        german, english = few(rng)
    elif rng.random() < 0.2:
        return f"{german} %", f"{english}%"
    return f"{german} Prozent", f"{english} percent"
