"""A SimulEval agent that runs any model directory; SimulEval itself is imported at first use.

simuleval --agent-class hmt.evaluation.simuleval.HMTAgent --model DIR --lower 3 --source ...
"""

import importlib
import json
from argparse import ArgumentParser, Namespace
from dataclasses import asdict, fields
from functools import cache
from pathlib import Path
from typing import Any

import torch

from hmt.errors import UserError
from hmt.models.model import Model, load
from hmt.plain import from_plain
from hmt.streaming.events import Event
from hmt.streaming.whole_words import WordAssembler
from hmt.systems import SYSTEMS
from hmt.text.symbols import EOS, SPECIALS

# Keeps knobs apart from SimulEval's own options among the parsed arguments.
_PREFIX = "knob_"
# Calls after the end of the source; an agent that has not ended by then never will.
PATIENCE = 1000


class Interpreter:
    """One sentence: whole source words in, whole target words out, counted as SimulEval does."""

    def __init__(self, model: Model, knobs: Any) -> None:
        self.has_ended = False  # the translation is over, perhaps before the source is
        self._words = WordAssembler()
        self._out: list[str] = []  # complete words
        self._session = model.session(by_line=True, listener=self._take, **asdict(knobs))

    def push(self, words: str, *, is_last: bool) -> str:
        """Take the next words; return the target words that are now complete, joined by spaces."""
        if self.has_ended:
            return ""
        self._session.push(words)
        if is_last:
            self._session.finish()
        self.has_ended = is_last or (bool(words.split()) and self._session.stream.target_ended)
        if self.has_ended:
            self._out += [word.text for word in self._words.rest()]
        out, self._out = self._out, []
        return " ".join(out)

    def _take(self, event: Event) -> None:
        self._out += [word.text for word in self._words.take(event)]


def add_knobs(parser: ArgumentParser) -> None:
    """Offer the knobs of all systems as options; the model decides which ones apply."""
    names = sorted({f.name for system in SYSTEMS.values() for f in fields(system.Knobs)})
    for name in names:
        owners = [key for key, s in SYSTEMS.items() if name in {f.name for f in fields(s.Knobs)}]
        parser.add_argument(
            f"--{name.replace('_', '-')}",
            dest=_PREFIX + name,
            default=None,
            metavar="VALUE",
            help=f"inference setting of {', '.join(owners)} models",
        )


def knobs_of(model: Model, args: Namespace) -> Any:
    """The model's settings, overridden by those of the command line."""
    given = {
        name.removeprefix(_PREFIX): _plain(text)
        for name, text in vars(args).items()
        if name.startswith(_PREFIX) and text is not None
    }
    defaults = model.knobs()
    known = [f.name for f in fields(model.system.Knobs)]
    for name in given:
        if name not in known:
            allowed = ", ".join("--" + n.replace("_", "-") for n in known) or "none"
            raise UserError(
                f"There is no option --{name.replace('_', '-')} for a model of the system "
                f"{model.system.name}; its knobs are: {allowed}."
            )
    chosen = from_plain(type(defaults), {**asdict(defaults), **given}, "knobs")
    return model.knobs(**asdict(chosen))


def _plain(text: str) -> Any:
    """Parse a value: a number, true, false, or text."""
    try:
        return json.loads(text.lower() if text.lower() in ("true", "false") else text)
    except (ValueError, RecursionError):
        return None if text.lower() == "none" else text


def build_agent(name: str, arguments: list[str]) -> Any:
    """An agent of any class, "package.module.Class", made as SimulEval makes it."""
    options = _imported("simuleval.options")
    module, _, attribute = name.rpartition(".")
    try:
        kind = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise UserError(
            f"There is no agent class {name} ({error}); name one as package.module.Class that "
            "Python can import here."
        ) from None
    parser = options.general_parser()
    options.add_evaluator_args(parser)
    options.add_scorer_args(parser, arguments)
    options.add_dataloader_args(parser, arguments)
    kind.add_args(parser)
    args = parser.parse_args(arguments)
    agent = kind.from_args(args)
    if (agent.source_type, agent.target_type) != ("text", "text"):
        raise UserError(
            f"{name} is an agent from {agent.source_type} to {agent.target_type}; only agents from "
            "text to text can be audited."
        )
    agent.to(args.device)
    return agent


def answers(agent: Any, words: list[str]) -> list[str]:
    """An agent's output for each word, as SimulEval would request it; "</s>" where it ends."""
    segments = _imported("simuleval.data.segments")
    agent.reset()
    found: list[str] = []
    while not (found and found[-1].endswith(SPECIALS[EOS])):
        n = len(found)
        if n < len(words):
            given = segments.TextSegment(index=n, content=words[n], finished=n == len(words) - 1)
        elif n < len(words) + PATIENCE:
            given = segments.EmptySegment(finished=True)
        else:
            raise UserError(
                f"The agent did not end its translation within {PATIENCE} calls after the end of "
                "the source; SimulEval would wait forever."
            )
        answer = agent.pushpop(given)
        text = "" if answer.is_empty else str(answer.content)
        found.append(text + (SPECIALS[EOS] if answer.finished else ""))
    agent.reset()
    return found


def _imported(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise UserError(
            f"SimulEval cannot be imported (no module {error.name}); install it with "
            "`pip install hmt[simuleval]`, best in an environment of its own."
        ) from None


@cache
def _agent_class() -> type:
    _imported("simuleval.agents")
    from simuleval.agents import TextToTextAgent, actions
    from simuleval.agents.states import AgentStates

    class States(AgentStates):  # type: ignore[misc]
        """State of one sentence: what SimulEval tracks, and the translation in progress."""

        def reset(self) -> None:
            super().reset()
            self.interpreter: Interpreter | None = None
            self.given = 0

    class HMTAgent(TextToTextAgent):  # type: ignore[misc]
        """Any model directory, for `simuleval --agent-class`."""

        def __init__(self, args: Namespace) -> None:
            self.model = load(Path(args.model), trust=args.trust)
            self.knobs = knobs_of(self.model, args)
            super().__init__(args)

        @staticmethod
        def add_args(parser: ArgumentParser) -> None:
            parser.add_argument("--model", required=True, help="a model directory of hmt")
            parser.add_argument(
                "--trust",
                action="store_true",
                help="allow a model whose system is code outside hmt",
            )
            add_knobs(parser)

        def build_states(self) -> Any:
            return States()

        def policy(self, states: Any = None) -> Any:
            """Take the words that arrived since the last call; write those now complete."""
            states = self.states if states is None else states
            if states.interpreter is None:
                states.interpreter = Interpreter(self.model, self.knobs)
            interpreter = states.interpreter
            new, states.given = states.source[states.given :], len(states.source)
            text = interpreter.push(" ".join(new), is_last=states.source_finished)
            if interpreter.has_ended or states.source_finished:
                return actions.WriteAction(text, finished=True)
            return actions.WriteAction(text, finished=False) if text else actions.ReadAction()

        def to(self, device: str, *args: Any, fp16: bool = False, **kwargs: Any) -> None:
            self.device = device
            self.model.system.to(torch.device(device), torch.float16 if fp16 else None)

    HMTAgent.__qualname__ = "HMTAgent"
    return HMTAgent


def __getattr__(name: str) -> Any:
    if name == "HMTAgent":
        return _agent_class()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
