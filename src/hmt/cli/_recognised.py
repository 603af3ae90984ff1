"""What a speech recogniser sends to `hmt translate --input jsonl`: one JSON object per line.

{"text": "Ich habe", "at": 1.25}                words that are final, and when they were spoken
{"text": "Ich habe gestern", "committed": 2}    the whole current guess; its first 2 words are final
{"text": "Ich habe gestern", "tentative": true} a guess whose words are final once two guesses agree
{"pause": true}                                 the utterance is over: the last guess is final
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hmt.errors import UserError

if TYPE_CHECKING:
    from hmt.streaming.session import Session


@dataclass(frozen=True)
class Line:
    """One line of the input."""

    text: str | None = None
    at: float | None = None  # seconds
    committed: int | None = None
    tentative: bool = False
    pause: bool = False


def take(session: "Session", line: str, number: int) -> None:
    """Pass one line of the input to a session."""
    from hmt.plain import from_plain, json_object

    if not line.strip():
        return
    try:
        _hand_over(session, from_plain(Line, json_object(line)))
    except UserError as error:
        raise UserError(f"Line {number} of the input: {error}") from None


def _hand_over(session: "Session", line: Line) -> None:
    if line.text is None and not line.pause:
        raise UserError('there is neither "text" nor "pause": true; give one of them.')
    if line.text is not None and (line.tentative or line.committed is not None):
        session.guess(line.text, line.committed, line.at)
    elif line.text is not None:
        session.push(line.text, line.at)
    if line.pause:
        session.commit(line.at)
