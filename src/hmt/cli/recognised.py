"""What a speech recogniser sends to `hmt translate --input jsonl`: one JSON object per line.

{"text": "Ich habe", "at": 1.25}                words that are final, and when they were spoken
{"text": "Ich habe gestern", "committed": 2}    the whole current guess; its first 2 words are final
{"text": "Ich habe gestern", "tentative": true} a guess whose words are final once two guesses agree
{"pause": true}                                 the utterance is over: all that was guessed is final
"""

from typing import TYPE_CHECKING, Any

from hmt.errors import UserError

if TYPE_CHECKING:
    from hmt.streaming.session import Session

KEYS = ("text", "at", "committed", "tentative", "pause")


def take(session: "Session", line: str, number: int) -> None:
    """Hand one line of the input to a session."""
    from hmt.streaming.record import json_object

    if not line.strip():
        return
    try:
        _hand_over(session, json_object(line))
    except UserError as error:
        raise UserError(f"Line {number} of the input: {error}") from None


def _hand_over(session: "Session", values: dict[str, Any]) -> None:
    _check(values)
    at = values.get("at")
    if "text" in values:
        text, committed = values["text"], values.get("committed")
        if committed is not None or values.get("tentative"):
            session.guess(text, committed, at)
        else:
            session.push(text, at)
    if values.get("pause"):
        session.commit(at)


def _check(values: dict[str, Any]) -> None:
    from hmt.streaming.record import is_int, is_number, is_string, shortened

    if unknown := sorted(values.keys() - set(KEYS)):
        raise UserError(f"unknown key {unknown[0]!r}; there are {', '.join(KEYS)}.")
    if "text" not in values and "pause" not in values:
        raise UserError('neither "text" nor "pause" is there; give one of them.')
    kinds = {
        "text": (is_string, "text"),
        "at": (is_number, "a number of seconds"),
        "committed": (is_int, "a whole number of words"),
        "tentative": (lambda value: isinstance(value, bool), "true or false"),
        "pause": (lambda value: isinstance(value, bool), "true or false"),
    }
    for name, value in values.items():
        fits, kind = kinds[name]
        if not fits(value):
            raise UserError(f'"{name}" is {shortened(value)}; it must be {kind}.')
