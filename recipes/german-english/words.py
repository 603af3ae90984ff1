"""Words that fill templates: German and English, or one form for both."""

Pair = tuple[str, str]


def listed(text: str) -> tuple[str, ...]:
    """The words of a text."""
    return tuple(text.split())


def _pairs(text: str) -> tuple[Pair, ...]:
    """One pair per line, German = English."""
    lines = (line.split(" = ") for line in text.strip().splitlines())
    return tuple((german.strip(), english.strip()) for german, english in lines)


def _aligned(german: str, english: str) -> tuple[Pair, ...]:
    """Pairs of single words."""
    return tuple(zip(german.split(), english.split(), strict=True))


COUNTS = _aligned(
    """zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn sechzehn
    siebzehn achtzehn neunzehn zwanzig einundzwanzig fünfundzwanzig dreißig fünfunddreißig vierzig
    zweiundvierzig fünfzig sechzig siebzig achtzig neunzig neunundneunzig hundert tausend""",
    """two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen
    seventeen eighteen nineteen twenty twenty-one twenty-five thirty thirty-five forty
    forty-two fifty sixty seventy eighty ninety ninety-nine hundred thousand""",
)
COUNTS = (*COUNTS[:-2], ("hundert", "a hundred"), ("tausend", "a thousand"))
DIGITS = _aligned(
    "null eins zwei drei vier fünf sechs sieben acht neun",
    "zero one two three four five six seven eight nine",
)
MONTHS = _aligned(
    "Januar Februar März April Mai Juni Juli August September Oktober November Dezember",
    "January February March April May June July August September October November December",
)
ORDINALS = listed("""
    ersten zweiten dritten vierten fünften sechsten siebten achten neunten zehnten elften
    zwölften dreizehnten vierzehnten fünfzehnten sechzehnten siebzehnten achtzehnten
    neunzehnten zwanzigsten einundzwanzigsten zweiundzwanzigsten dreiundzwanzigsten
    vierundzwanzigsten fünfundzwanzigsten sechsundzwanzigsten siebenundzwanzigsten
    achtundzwanzigsten
""")
CURRENCIES = _aligned(
    "Dollar Franken Pfund Cent Yen Kronen", "dollars francs pounds cents yen kronor"
)

STREETS = listed("""
    Goethe Schiller Bahnhof Haupt Garten Schul Berg Linden Mozart Beethoven Wald Kirch Park
    Rosen Ring Markt Post Mühlen Friedrich Wilhelm Kastanien Birken Rathaus Hafen Dorf Blumen
    Sonnen Kant Luther Bismarck Nord Süd Feld Wiesen Brunnen Schloss
""")
HOSTS = ("example.com", "example.org", "gmail.com", "web.de", "gmx.de", "posteo.de", "uni-jena.de")
LOANS = listed("""
    serendipity saudade hygge pierogi tapas ramen sushi kimchi siesta fjord samovar tsunami
    origami karaoke safari paella gnocchi tiramisu ratatouille croissant baguette burrito tofu
    yoga ombudsman smörgåsbord lagom ubuntu sauna kebab baklava raki ouzo feta moussaka
    gulasch kielbasa bigos borschtsch pelmeni blini haiku bonsai manga anime jalapeño
    guacamole tortilla flamenco fado fiesta vendetta paparazzi maestro crescendo adagio voilà
    déjà-vu chapeau chouchou papillon bonjour merci grazie ciao obrigado dziękuję teşekkürler
    spasibo arigato namaste shalom salaam hola adiós gracias takk tusen kiitos efcharisto
    hvala köszönöm
""")
COMPANIES = listed("""
    Siemens Bosch Volkswagen BMW Audi Daimler Porsche SAP Bayer BASF Adidas Puma Lufthansa
    Allianz Aldi Lidl Edeka Rewe Ikea Google Microsoft Amazon Apple Facebook Netflix Spotify
    Samsung Sony Toyota Honda Nokia Ericsson Philips Nestlé Renault Peugeot Fiat Ferrari
    Airbus Boeing Intel Nvidia PayPal DHL UPS Tesla Uber Airbnb Zalando Miele Haribo Mozilla
    Ryanair Barilla Orlen Vodafone Telefónica Huawei Xiaomi Hitachi Maersk Lego Novartis Roche
    Swisscom Migros Spar Rossmann Thalia Sixt Flixbus
""")
PRODUCTS = listed("""
    WhatsApp Instagram YouTube Zoom Skype Linux Windows Android Firefox Chrome Wikipedia
    Photoshop Excel PowerPoint Bluetooth Nutella Nivea Aspirin Ibuprofen Paracetamol Python
    Java Outlook Teams Telegram Signal Minecraft Tetris Monopoly Scrabble
""")

SCRIPTS = (
    "абвгдежзийклмнопрстуфхцчшщъыьэюяєіїґ",
    "абвгдежзиклмнопрстуаеиоу",
    "αβγδεζηθικλμνξοπρσςτυφχψωάέήίόύώ",
    "abcdefghijklmnopqrstuvwxyz",
    "aeiouąćęłńóśźżčďěňřšťůžğışçöü",
)

LISTS: dict[str, tuple[Pair, ...]] = {
    "weekday": _aligned(
        "Montag Dienstag Mittwoch Donnerstag Freitag Samstag Sonntag",
        "Monday Tuesday Wednesday Thursday Friday Saturday Sunday",
    ),
    "language": _aligned(
        """Deutsch Englisch Französisch Spanisch Italienisch Polnisch Türkisch Russisch Arabisch
        Chinesisch Japanisch Portugiesisch Griechisch Schwedisch Ukrainisch""",
        """German English French Spanish Italian Polish Turkish Russian Arabic Chinese Japanese
        Portuguese Greek Swedish Ukrainian""",
    ),
    "drink": _aligned(
        """Kaffee Tee Saft Wein Kakao Apfelsaft Orangensaft Tomatensaft Rotwein Weißwein Schnaps
        Sekt""",
        """coffee tea juice wine cocoa apple_juice orange_juice tomato_juice red_wine white_wine
        schnapps sparkling_wine""",
    ),
    "food": _pairs("""
        Brot = bread
        Käse = cheese
        Fisch = fish
        Reis = rice
        Nudeln = pasta
        Kartoffeln = potatoes
        Suppe = soup
        Salat = salad
        Hähnchen = chicken
        Pommes = chips
        Obst = fruit
        Gemüse = vegetables
        Kuchen = cake
        Eier = eggs
        Pizza = pizza
        Schokolade = chocolate
        Äpfel = apples
        Tomaten = tomatoes
        Pilze = mushrooms
        Wurst = sausage
    """),
    "sweet": _pairs("""
        Zucker = sugar
        Milch = milk
        Sahne = cream
        Honig = honey
        Zitrone = lemon
        Süßstoff = sweetener
    """),
    "without": _pairs("""
        Zucker = sugar
        Milch = milk
        Salz = salt
        Zwiebeln = onions
        Fleisch = meat
        Knoblauch = garlic
        Eis = ice
        Alkohol = alcohol
        Nüsse = nuts
        Sahne = cream
        Butter = butter
        Käse = cheese
        Soße = sauce
    """),
    "when": _pairs("""
        heute = today
        morgen = tomorrow
        übermorgen = the day after tomorrow
        heute Abend = tonight
        morgen früh = tomorrow morning
        morgen Nachmittag = tomorrow afternoon
        nächste Woche = next week
        nächsten Monat = next month
        am Wochenende = at the weekend
        in zwei Wochen = in two weeks
        nächstes Jahr = next year
        am Montag = on Monday
        am Dienstag = on Tuesday
        am Mittwoch = on Wednesday
        am Donnerstag = on Thursday
        am Freitag = on Friday
        am Samstag = on Saturday
    """),
    "past": _pairs("""
        gestern = yesterday
        vorgestern = the day before yesterday
        letzte Woche = last week
        gestern Abend = last night
        heute Morgen = this morning
        letzten Sommer = last summer
        letztes Jahr = last year
        vor zwei Tagen = two days ago
        vor einem Monat = a month ago
        am Montag = on Monday
        am Wochenende = at the weekend
        im letzten Winter = last winter
    """),
    "kin": _pairs("""
        Bruder = brother
        Vater = father
        Sohn = son
        Onkel = uncle
        Freund = friend
        Nachbar = neighbour
        Chef = boss
        Kollege = colleague
        Lehrer = teacher
        Arzt = doctor
        Großvater = grandfather
        Cousin = cousin
    """),
    "kinswoman": _pairs("""
        Schwester = sister
        Mutter = mother
        Tochter = daughter
        Tante = aunt
        Freundin = friend
        Nachbarin = neighbour
        Chefin = boss
        Kollegin = colleague
        Lehrerin = teacher
        Ärztin = doctor
        Großmutter = grandmother
        Cousine = cousin
    """),
}
LISTS["drink"] = tuple((german, english.replace("_", " ")) for german, english in LISTS["drink"])
