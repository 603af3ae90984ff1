"""The toy language: the stated moments are the earliest at which each word is decided."""

from collections import defaultdict

from hmt import toy

PAIRS = list(toy.sentences(20000, seed=3))


def words_seen(margin: int) -> dict[tuple[tuple[str, ...], tuple[str, ...]], set[str]]:
    """Next target words after each (source prefix, target prefix), where a word had to be read."""
    seen = defaultdict(set)
    for pair in PAIRS:
        for i, (before, reads) in enumerate(zip((0, *pair.reads), pair.reads, strict=False)):
            if reads > before:
                seen[pair.source[: reads - margin], pair.target[:i]].add(pair.target[i])
    return seen


def test_stated_reads_decide_every_word() -> None:
    assert all(len(words) == 1 for words in words_seen(0).values())


def test_one_read_less_leaves_the_word_open() -> None:
    seen = words_seen(1)
    # only short prefixes come often enough in the sample to show their alternatives
    frequent = [words for (source, _), words in seen.items() if len(source) <= 2]
    assert len(frequent) > 30 and all(len(words) > 1 for words in frequent)


def test_reads_are_monotone_and_within_the_source() -> None:
    for pair in PAIRS[:500]:
        assert len(pair.reads) == len(pair.target)
        assert list(pair.reads) == sorted(pair.reads)
        assert pair.reads[0] == 1 and pair.reads[-1] == len(pair.source)


def test_the_same_seed_gives_the_same_sentences_and_files_match(tmp_path) -> None:
    assert list(toy.sentences(50, seed=5)) == list(toy.sentences(50, seed=5))
    assert list(toy.sentences(50, seed=5)) != list(toy.sentences(50, seed=6))
    source, target = toy.write(tmp_path / "new", "train", 50, seed=5)
    lines = zip(source.read_text().splitlines(), target.read_text().splitlines(), strict=True)
    pairs = [(tuple(s.split()), tuple(t.split())) for s, t in lines]
    assert pairs == [(pair.source, pair.target) for pair in toy.sentences(50, seed=5)]
