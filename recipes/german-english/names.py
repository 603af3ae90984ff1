"""People: first names and surnames, some of them invented."""

from random import Random

from words import listed

Pair = tuple[str, str]

MALE = listed("""
    Achim Adam Adrian Ahmed Alan Albert Alejandro Alessandro Alex Alexander Ali Amir Anatol
    Andreas Andrew Anton Antonio Armin Arne Arthur Artur August Axel Bastian Ben Benedikt
    Benjamin Bernd Bernhard Bob Boris Brian Bruno Burak Carl Carlos Carsten Cem Charles Chris
    Christoph Claudio Clemens Daniel Dario David Deniz Dennis Detlef Diego Dieter Dietmar
    Dimitri Dirk Dominik Eduard Elias Emil Emre Enrico Erik Erwin Eugen Fabian Felix Ferdinand
    Finn Florian Francesco Francois Frank Franz Frederik Friedrich Fritz Georg George Gerd
    Gerhard Giovanni Gregor Guido Gustav Günter Hannes Hans Harald Harry Hasan Heiko Heinrich
    Heinz Helmut Hendrik Henning Henry Herbert Hermann Hiroshi Holger Horst Hubert Hugo
    Ibrahim Igor Ivan Ismail Jack Jakob James Janusz Jason Jens Jim Joachim Jochen Joe
    Johannes John Jonas Jonathan Josef José Juan Julian Jörg Jürgen Karim Karl Karsten Keith
    Ken Kenji Kevin Klaus Konrad Konstantin Kurt Lars Lasse Laurent Leo Leon Leonard Levi Liam
    Linus Lorenz Louis Luca Lucas Ludwig Luis Luka Lukas Magnus Malte Manfred Manuel Marc
    Marcel Marco Marek Mario Marius Markus Martin Marvin Mateusz Mathias Matteo Matthias Max
    Maximilian Mehmet Michael Miguel Mike Mirko Mohammed Moritz Murat Mustafa Nathan Nico Nick
    Niklas Nils Noah Norbert Olaf Ole Oleg Oliver Omar Oskar Otto Pablo Pascal Patrick Paul
    Pavel Pedro Peter Philipp Pierre Piotr Rafael Raimund Ralf Rashid Rasmus Reinhard René
    Ricardo Richard Robert Roberto Robin Roger Roland Rolf Roman Rüdiger Rudolf Sam Samuel
    Sebastian Sergej Siegfried Simon Stefan Steffen Steve Sven Takeshi Tarek Theo Theodor
    Thomas Thorsten Tim Timo Tobias Tom Tomasz Tony Torben Ulrich Umut Uwe Valentin Viktor
    Vincent Vladimir Volker Walter Werner Wilhelm William Winfried Wolfgang Xaver Yannick
    Yusuf
""")
FEMALE = listed("""
    Adele Agnes Agnieszka Aisha Alexandra Alice Alicia Alina Amelie Ana Andrea Angela Angelika
    Anita Anja Anke Ann Anna Anne Annette Antje Antonia Astrid Aylin Ayşe Barbara Beata Beate
    Berta Betty Bianca Birgit Brigitte Britta Camilla Carina Carla Carmen Carolin Caroline
    Catherine Cecilia Charlotte Chiara Christa Christiane Christina Christine Clara Claudia
    Conny Cornelia Dagmar Daniela Diana Doris Dorothea Ebru Edith Elena Elif Elisa Elisabeth
    Elke Ella Ellen Elsa Emilia Emily Emma Erika Esra Esther Eva Evelyn Fatima Fatma Fiona
    Franziska Frieda Frieke Gabriele Gerda Gisela Giulia Gloria Greta Gudrun Hanna Hannah
    Hannelore Hatice Heide Heidi Heike Helen Helena Helga Henriette Hilde Ida Ilse Ines Inga
    Ingeborg Ingrid Irene Irina Iris Isabel Isabella Jacqueline Jana Jane Janina Jasmin
    Jennifer Jessica Joanna Johanna Josefine Juanita Judith Julia Juliane Jutta Karin Karla
    Karolina Katarzyna Katharina Kathrin Katja Kerstin Kim Kirsten Klara Kumiko Lara Larissa
    Laura Lea Leila Lena Leonie Leyla Lilly Lina Linda Lisa Lotte Louise Lucia Lucy Luisa
    Lydia Magdalena Maja Małgorzata Mara Mareike Margarete Margot Maria Marianne Marie Marina
    Marion Marlene Marta Martha Martina Mathilda Maya Mei Melanie Mia Michaela Michelle Mila
    Mina Mira Miriam Mona Monika Nadine Nadja Nancy Naomi Natalia Natascha Nele Nicole Nina
    Nora Olga Olivia Paula Pauline Petra Pia Priya Rabea Rahel Ramona Rebecca Regina Renate
    Rita Ronja Rosa Rosemarie Roswitha Ruth Sabine Sabrina Samira Sandra Sarah Saskia Selin
    Selma Sibylle Sigrid Silke Silvia Simone Sina Sofia Sonja Sophie Stefanie Stella Susan
    Susanne Svenja Svetlana Sybille Tamara Tanja Tatjana Teresa Theresa Tina Ulla Ulrike
    Ursula Uta Valentina Valeria Vanessa Vera Verena Veronika Viola Waltraud Wiebke Xenia
    Yasmin Yuki Yvonne Zeynep Zoe Zuzanna
""")
SURNAMES = listed("""
    Abel Adamczyk Ahrens Albrecht Almeida Andersson Arnold Arslan Aydin Bach Bader Baker Barth
    Bauer Baumann Beck Becker Behrens Berger Bergmann Bernard Bianchi Blum Bock Bogdanov Bosch
    Brandt Braun Brown Bruckner Brunner Böhm Busch Böttcher Carter Castillo Chen Clark Cohen
    Conti Costa Cruz Daimler Demir Dietrich Dubois Dupont Ebert Eder Egger Engel Erdmann
    Eriksson Ernst Esposito Evans Faber Farkas Fernandez Ferrari Fiedler Fischer Fleischer
    Frank Franke Friedrich Fuchs Fuentes Garcia Gebhardt Geiger Gerlach Gonzalez Graf Greco
    Green Groß Gruber Gupta Gutierrez Günther Haas Hahn Hansen Harris Hartmann Hartwig Heine
    Heinrich Heller Herrmann Herzog Hofer Hoffmann Hofmann Horvath Huber Hughes Ivanov Jackson
    Jansen Jensen Johansson Johnson Jones Jovanovic Jung Kaiser Kaya Keller Kim Kirchner Klein
    Klose Knapp Koch Kowalski Kraft Kramer Kraus Krüger Kuhn Kumar König Köhler Lambert Lang
    Lange Larsen Lehmann Leitner Lewandowski Lewis Lindner Lombardi Lopez Lorenz Ludwig Maier
    Marino Martens Martinez Marx Mayer Meier Meyer Miller Mitchell Moreau Moretti Moser Murphy
    Möller Müller Nagel Nakamura Naumann Neumann Nguyen Nielsen Nowak O'Brien Olsen Otto
    Özdemir Papadopoulos Patel Pavlov Pereira Petersen Petrov Pfeiffer Pichler Pohl Popescu
    Popov Reinhardt Reuter Richter Ricci Riedel Ritter Rivera Roberts Robinson Rodriguez
    Romano Rossi Roth Russo Sanchez Santos Sato Sauer Schäfer Scherer Schiller Schilling
    Schlegel Schmid Schmidt Schmitt Schneider Scholz Schreiber Schröder Schubert Schulte
    Schultz Schulz Schumacher Schuster Schwarz Scott Seidel Silva Simon Singh Smith Sommer
    Stein Steiner Stewart Suzuki Svensson Szabo Tanaka Taylor Thomas Thompson Toth Turner
    Ullrich Urban Vasquez Vogel Vogt Voigt Volkov Wagner Walker Walter Weber Weiß Wegner
    Werner White Wiese Wilhelm Williams Wilson Winkler Winter Wolff Wood Wright Wójcik
    Yamamoto Yang Yilmaz Zhang Ziegler Zimmermann
""")
# People in the everyday sentences: German form, English form, whether it is a man.
OLD_ACQUAINTANCES = (
    ("Maria", "Mary", False),
    ("Mary", "Mary", False),
    ("Marie", "Mary", False),
    ("Johannes", "John", True),
    ("Hans", "John", True),
    ("Jeff", "Jeff", True),
    ("Jimmy", "Jimmy", True),
    ("Bill", "Bill", True),
    ("Dan", "Dan", True),
    ("Kate", "Kate", False),
    ("Emi", "Emi", False),
    ("Yumi", "Yumi", False),
)

STARTS = listed("b br d dr f fl g gr h j k kl kr l m n p pl r s sch sp st t tr v w z qu x")
VOWELS = listed("a a a e e e i i o o u ei au y ä ö ü")
ENDS = (*[""] * 6, *listed("n r l s t m k x nd rt ck lf"))


def invented(rng: Random, *, most: int = 4) -> str:
    """An invented word that anybody can read, in lower case."""
    syllables = rng.randint(2, most)
    parts = [rng.choice(STARTS) + rng.choice(VOWELS) for _ in range(syllables)]
    return "".join(parts) + rng.choice(ENDS)


def draw_surname(rng: Random) -> Pair:
    """A surname, one in four invented."""
    name = invented(rng, most=3).capitalize() if rng.random() < 0.25 else rng.choice(SURNAMES)
    return name, name


def draw_male(rng: Random) -> Pair:
    """What a man is called: mostly his first name."""
    return _first(rng, MALE)


def draw_female(rng: Random) -> Pair:
    """What a woman is called: mostly her first name."""
    return _first(rng, FEMALE)


def draw_name(rng: Random) -> Pair:
    """What a person is called: mostly a first name."""
    return _first(rng, rng.choice((MALE, FEMALE)))


def draw_full(rng: Random) -> Pair:
    """A first name and a surname."""
    name = f"{rng.choice(rng.choice((MALE, FEMALE)))} {draw_surname(rng)[0]}"
    return name, name


def _first(rng: Random, names: tuple[str, ...]) -> Pair:
    draw = rng.random()
    name = invented(rng, most=3).capitalize() if draw < 0.25 else rng.choice(names)
    if draw > 0.9:
        name = f"{name} {rng.choice(SURNAMES)}"
    return name, name
