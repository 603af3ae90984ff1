"""Cities and countries as German and English call them; some cities invented."""

from random import Random

from names import invented

Pair = tuple[str, str]

DIFFERENT = """
    München Munich|Köln Cologne|Wien Vienna|Nürnberg Nuremberg|Hannover Hanover|Zürich Zurich|
    Genf Geneva|Basel Basel|Luzern Lucerne|Prag Prague|Warschau Warsaw|Krakau Krakow|
    Danzig Gdańsk|Breslau Wrocław|Rom Rome|Mailand Milan|Neapel Naples|Florenz Florence|
    Venedig Venice|Turin Turin|Genua Genoa|Bozen Bolzano|Padua Padua|Lissabon Lisbon|
    Moskau Moscow|Kiew Kyiv|Brüssel Brussels|Antwerpen Antwerp|Lüttich Liège|Brügge Bruges|
    Gent Ghent|Kopenhagen Copenhagen|Athen Athens|Bukarest Bucharest|Belgrad Belgrade|
    Straßburg Strasbourg|Nizza Nice|Marseille Marseille|Sevilla Seville|Tokio Tokyo|
    Peking Beijing|Schanghai Shanghai|Singapur Singapore|Hongkong Hong_Kong|Kairo Cairo|
    Algier Algiers|Tunis Tunis|Teheran Tehran|Bagdad Baghdad|Damaskus Damascus|
    Jerusalem Jerusalem|Kapstadt Cape_Town|Neu-Delhi New_Delhi|Kalkutta Kolkata|Havanna Havana|
    Mexiko-Stadt Mexico_City|Den_Haag The_Hague|Göteborg Gothenburg|Edinburgh Edinburgh|
    Sankt_Petersburg Saint_Petersburg|Addis_Abeba Addis_Ababa|Riad Riyadh|Dschidda Jeddah|
    Maskat Muscat|Taschkent Tashkent|Tiflis Tbilisi|Eriwan Yerevan|Konstanz Constance|
    Koblenz Koblenz|Mainz Mainz
"""
SAME = """
    Aachen Aalen Amsterdam Ankara Antalya Augsburg Austin Bamberg Bangkok Barcelona Bari Bayreuth
    Bergen Berlin Bern Bielefeld Birmingham Bochum Bologna Bonn Bordeaux Boston Bratislava Bregenz
    Bremen Bremerhaven Bristol Brno Budapest Buenos_Aires Burgos Calgary Cambridge Cardiff
    Casablanca Celle Chemnitz Chicago Chur Coburg Cottbus Cuxhaven Dakar Dallas Darmstadt Debrecen
    Delft Denver Dessau Detroit Dortmund Dresden Dubai Dublin Duisburg Düsseldorf Eindhoven
    Eisenach Emden Erfurt Erlangen Essen Esslingen Faro Flensburg Frankfurt Freiburg Fulda Fürth
    Gdynia Gelsenkirchen Gera Gießen Glasgow Goslar Granada Graz Greifswald Göttingen Görlitz
    Hagen Halle Hamburg Hameln Hamm Hanau Hanoi Heidelberg Heilbronn Helsinki Hildesheim Houston
    Ingolstadt Innsbruck Istanbul Izmir Jakarta Jena Johannesburg Kaiserslautern Karlsruhe Kassel
    Kaunas Kempten Kiel Klagenfurt Kobe Krefeld Kyoto Lagos Landshut Las_Vegas Lausanne Leeds
    Leipzig Lille Lima Limerick Lincoln Linz Liverpool London Lörrach Los_Angeles Lugano Lund Lyon
    Lübeck Lüneburg Maastricht Madrid Magdeburg Malmö Manchester Manila Mannheim Marburg Melbourne
    Memmingen Miami Minden Minsk Montevideo Montreal Mumbai Málaga Mönchengladbach Münster Nagoya
    Nairobi Nantes Neuss New_York Nottingham Odessa Offenburg Oldenburg Padang Osaka Oslo
    Osnabrück Ottawa Oxford Paderborn Palermo Paris Passau Pforzheim Philadelphia Pisa Plauen
    Porto Portland Potsdam Quito Ravensburg Regensburg Reutlingen Riga Rio_de_Janeiro Rosenheim
    Rostock Rotterdam Saarbrücken Salzburg San_Diego San_Francisco Santiago Sarajevo Schwerin
    Seattle Seoul Siegen Sofia Solingen Split Stavanger Stockholm Stralsund Stuttgart Sydney
    Szczecin Tallinn Tampere Tel_Aviv Thessaloniki Toronto Toulouse Trier Triest Tübingen Ulm
    Uppsala Utrecht Valencia Vancouver Villach Vilnius Washington Weimar Wiesbaden Winterthur
    Wolfsburg Worms Wuppertal Würzburg York Ljubljana Braunschweig Zagreb Zermatt Zwickau
"""
LANDS = """
    Deutschland Germany|Österreich Austria|Frankreich France|Italien Italy|Spanien Spain|
    Portugal Portugal|Polen Poland|Tschechien Czechia|Ungarn Hungary|Rumänien Romania|
    Bulgarien Bulgaria|Griechenland Greece|Belgien Belgium|Luxemburg Luxembourg|Dänemark Denmark|
    Schweden Sweden|Norwegen Norway|Finnland Finland|Island Iceland|Irland Ireland|
    England England|Schottland Scotland|Großbritannien Britain|Estland Estonia|Lettland Latvia|
    Litauen Lithuania|Slowenien Slovenia|Kroatien Croatia|Serbien Serbia|Bosnien Bosnia|
    Albanien Albania|
    Nordmazedonien North_Macedonia|Russland Russia|Georgien Georgia|Armenien Armenia|
    Zypern Cyprus|Malta Malta|Israel Israel|Ägypten Egypt|Marokko Morocco|Tunesien Tunisia|
    Algerien Algeria|Libyen Libya|Äthiopien Ethiopia|Kenia Kenya|Tansania Tanzania|
    Nigeria Nigeria|Ghana Ghana|Senegal Senegal|Südafrika South_Africa|Namibia Namibia|
    Indien India|Pakistan Pakistan|Bangladesch Bangladesh|Nepal Nepal|China China|Japan Japan|
    Südkorea South_Korea|Vietnam Vietnam|Thailand Thailand|Indonesien Indonesia|
    Malaysia Malaysia|Australien Australia|Neuseeland New_Zealand|Kanada Canada|Mexiko Mexico|
    Kuba Cuba|Kolumbien Colombia|Peru Peru|Chile Chile|Argentinien Argentina|Brasilien Brazil|
    Uruguay Uruguay|Bolivien Bolivia|Ecuador Ecuador|Syrien Syria|Jordanien Jordan|
    Saudi-Arabien Saudi_Arabia|Afghanistan Afghanistan|Kasachstan Kazakhstan|
    Usbekistan Uzbekistan|Belarus Belarus|Montenegro Montenegro|Amerika America
"""


def _pairs(text: str) -> list[Pair]:
    """German and English names; an underscore stands for a space inside a name."""
    entries = (entry.split() for entry in text.split("|"))
    return [(de.replace("_", " "), en.replace("_", " ")) for de, en in entries]


CITIES = tuple(_pairs(DIFFERENT) + [(n.replace("_", " "),) * 2 for n in SAME.split()])
COUNTRIES = tuple(_pairs(LANDS))


def draw_city(rng: Random) -> Pair:
    """A city, one in five invented."""
    draw = rng.random()
    if draw < 0.2:
        name = invented(rng, most=3).capitalize() + rng.choice(
            ("", "", "burg", "stadt", "hausen", "au")
        )
        return name, name
    return rng.choice(CITIES[:70] if draw < 0.4 else CITIES)


def draw_country(rng: Random) -> Pair:
    """A country without an article."""
    return rng.choice(COUNTRIES)
