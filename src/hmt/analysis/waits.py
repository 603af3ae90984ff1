"""What a translation waited for, in plain sentences."""

from collections.abc import Sequence
from dataclasses import dataclass

from hmt.analysis.explanation import END, Explanation, Token, Written


@dataclass(frozen=True)
class Wait:
    """One wait: before target token `token` (from 0), in a sentence."""

    token: int
    sentence: str
    is_choice: bool  # an earlier moment was possible and was not taken


@dataclass(frozen=True)
class Event:
    """Something that happened after source token `moment`: a token was written or held back."""

    moment: int
    token: int
    state: int  # its place among the token's states
    text: str
    is_written: bool


def waits(explanation: Explanation) -> list[Wait]:
    """Every wait of a sentence in order: those chosen, and reading that had no alternative."""
    found = []
    before = 0
    for i, token in enumerate(explanation.target_tokens):
        if token.rejected:
            found.append(Wait(i, _chosen(explanation, i, token), True))
        elif token.reads - before > 1:
            names = _names(explanation, before, token.reads)
            sentence = f"Before {_doing(explanation, i)} the model read {_listed(names)}; "
            found.append(Wait(i, sentence + "no earlier moment was open to it.", False))
        before = token.reads
    return found


def events(explanation: Explanation) -> list[Event]:
    """What the model wrote and what it held back, in order of time."""
    found = []
    for i, token in enumerate(explanation.target_tokens):
        for n, state in enumerate(token.states):
            if state in token.rejected:
                text = state.words[0].text if state.words else "?"
                found.append(Event(state.moment, i, n, text, False))
            elif state is token.selected:
                found.append(Event(state.moment, i, n, token.text, True))
    return found


def _chosen(explanation: Explanation, i: int, token: Written) -> str:
    first = token.rejected[0]
    names = _names(explanation, first.moment, token.reads)
    sentence = f"Before {_doing(explanation, i)} the model waited for {names[-1]}"
    if passed := names[:-1]:
        sentence += f": {_listed(passed)} {'was' if len(passed) == 1 else 'were'} not enough"
    sentence += "."
    if first.words and first.words[0].text != token.text:
        sentence += f" Without waiting it would have written {_quoted(first.words[0].text)}."
    elif first.words:
        sentence += " It had this word in mind before, but was not confident."
    if _is_due(explanation, token):
        sentence += " This was the last moment it had."
    return sentence


def _is_due(explanation: Explanation, token: Written) -> bool:
    """Whether a token had to be written, as the full confidence of its last state shows.

    Where every token has it, as in systems that write once all heads have stopped, it means
    nothing.
    """
    tells = any(other.selected.confidence not in (None, 1.0) for other in explanation.target_tokens)
    return tells and token.selected.confidence == 1.0 and token.selected is token.states[-1]


def _doing(explanation: Explanation, i: int) -> str:
    token = explanation.target_tokens[i]
    if token.word is None:
        return "ending the translation"
    word = explanation.target_words[token.word]
    if i and explanation.target_tokens[i - 1].word == token.word:
        return f"going on with {_quoted(token.text)} in {_quoted(word)}"
    return f"writing {_quoted(word)}"


def _names(explanation: Explanation, start: int, stop: int) -> list[str]:
    """The source words that tokens start..stop-1 belong to, as they stand in a sentence."""
    tokens = explanation.source_tokens[start:stop]
    names = [_name(explanation, token) for token in tokens]
    if start and len(set(names)) == 1 and tokens and tokens[0].word is not None:
        goes_on = explanation.source_tokens[start - 1].word == tokens[0].word
        names = [f"more of {names[0]}" if goes_on else names[0]]
    return list(dict.fromkeys(names))


def _name(explanation: Explanation, token: Token) -> str:
    if token.word is None:
        return "the end of the sentence"
    return _quoted(explanation.source_words[token.word])


def _listed(names: Sequence[str]) -> str:
    if len(names) == 1:
        return names[0]
    return f"{', '.join(names[:-1])} and {names[-1]}"


def _quoted(text: str) -> str:
    return "the end" if text == END else f"“{text}”"
