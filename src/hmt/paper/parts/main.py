"""The main figure, quality over latency of all systems: with two budgets, and from scratch."""

from hmt.paper.blocks import Block, Section, Table, Text
from hmt.paper.parts.budgets import EQUAL_TIME, EQUAL_UPDATES, START, Budget, rivals
from hmt.paper.parts.comparison import Comparison, difference, side_of
from hmt.paper.parts.shown import TRAININGS, duration, read_data
from hmt.paper.parts.systems import SCRATCH, Rival
from hmt.paper.plan import Part, Place, Step

CLAIM = "The paper has HMT above all others at every latency"
UPDATES = Comparison(EQUAL_UPDATES.name, rivals(EQUAL_UPDATES), is_seeded=True)
TIME = Comparison(
    EQUAL_TIME.name, tuple(r for r in rivals(EQUAL_TIME) if not r.label.startswith("mma-noise"))
)
CAPTION = "BLEU over AL in tokens, {}; bands: 95 % intervals of one seed, or the range of several"


def steps(place: Place) -> list[Step]:
    """Every system with the same number of updates."""
    return UPDATES.steps(place)


def core(place: Place) -> list[Step]:
    """HMT beside multipath."""
    return UPDATES.steps(place, only_core=True)


def section(place: Place) -> Section:
    """The figure at equal updates, and how each system is trained."""
    blocks = UPDATES.blocks(place, CAPTION.format("equal updates from one start"))
    if blocks:
        blocks.insert(1, Text(_protocol(place)))
        blocks += [budgets_table(place), _notes(UPDATES.rivals)]
    return Section(blocks, UPDATES.verdict(place, CLAIM), UPDATES.missing(place))


def _protocol(place: Place) -> str:
    start = START.updates * place.updates
    return (
        f"All systems, including HMT, start from one multipath model of {start:,.0f} updates and "
        f"make {place.updates:,} more; of a system with one model per latency, each makes as many. "
        "Seeds share the start: they differ in the order of the batches, in dropout and in what a "
        "system draws. Part `time` instead gives each system the processor time that HMT takes; "
        "part `scratch` has models from random weights."
    )


def _notes(every: tuple[Rival, ...]) -> Table:
    rows = tuple((rival.label, rival.note) for rival in every)
    return Table(("system", "how it is trained"), rows, "How each system is trained")


def time_steps(place: Place) -> list[Step]:
    """Every system with the processor time that HMT takes."""
    return TIME.steps(place)


def time_core(place: Place) -> list[Step]:
    """Multipath, whose updates are cheapest."""
    return TIME.steps(place, only_core=True)


def time_section(place: Place) -> Section:
    """The figure at equal time, and both budgets side by side."""
    if not any(rival.results(place) for rival in TIME.rivals[1:]):
        verdict = f"{CLAIM}; no other system has been given the time that HMT takes yet."
        return Section((), verdict, TIME.missing(place))
    blocks = TIME.blocks(place, CAPTION.format("equal processor time from one start"))
    if blocks:
        blocks.insert(1, Text(_factors()))
        blocks.append(budgets_table(place))
    verdict = TIME.verdict(place, CLAIM)
    tested = {found["first"]: found for found in UPDATES.tests(place)}
    both = [found for found in TIME.tests(place) if found["first"] in tested]
    changed = [
        f"{found['first']} ({side_of(tested[found['first']])} at equal updates, {side_of(found)} "
        "at equal time)"
        for found in both
        if side_of(tested[found["first"]]) != side_of(found)
    ]
    if both:
        count = f"{len(both)} tested with both budgets"
        named = f"for {', '.join(changed)}" if changed else "for none"
        verdict += f" Of {count}, the budget changes where HMT stands {named}."
    return Section(blocks, verdict, TIME.missing(place))


def _factors() -> str:
    """How many updates each system gets per update of HMT."""
    recipes = dict.fromkeys(
        model.recipe for r in TIME.rivals for model in r.models if model.updates
    )
    listed = ", ".join(f"{name} {EQUAL_TIME.updates(name):.1f}" for name in recipes)
    return f"Updates per update of HMT, by processor time on one thread: {listed}."


def budgets_table(place: Place) -> Table:
    """HMT minus each other system under both budgets, and what its models took to train."""
    found = {c.folder: {t["first"]: t for t in c.tests(place)} for c in (UPDATES, TIME)}
    rows = []
    for rival in UPDATES.rivals[1:]:
        other = next((r for r in TIME.rivals if r.label == rival.label), None)
        cells = [rival.label]
        for comparison, each in ((UPDATES, rival), (TIME, other)):
            cells.append(difference(found[comparison.folder].get(rival.label)))
            cells.append(_cost(place, each))
        if set(cells[1:]) != {"–"}:
            rows.append(tuple(cells))
    rows.append(("hmt", "", _cost(place, UPDATES.rivals[0]), "", _cost(place, UPDATES.rivals[0])))
    head = ("system", "HMT minus it, equal updates", "trained in", "equal time", "trained in")
    return Table(head, tuple(rows))


def _cost(place: Place, rival: Rival | None) -> str:
    """Wall-clock time of a system's own training runs, not counting the shared start."""
    runs = {model.run for model in rival.models if model.start} if rival else set()
    costs = read_data(place.found / TRAININGS) or {}
    times = [costs[run] for run in runs if run in costs]
    count = f" ({len(times)} models)" if len(times) > 1 else ""
    return duration(sum(times)) + count if times else "–"


def from_scratch(place: Place) -> Comparison:
    """HMT, multipath and full; other systems if they have been trained and evaluated."""
    there = (r for r in SCRATCH if r.is_core or len(r.results(place)) == len(r.models))
    return Comparison("main", tuple(there))


def scratch_steps(place: Place) -> list[Step]:
    """Systems as their recipes train them."""
    return from_scratch(place).steps(place)


def scratch_section(place: Place) -> Section:
    """Results from scratch, and whether the ranking is the same as from the shared start."""
    found = from_scratch(place)
    blocks: list[Block] = found.blocks(place, CAPTION.format("each from random weights"))
    if blocks:
        blocks.append(_notes(found.rivals))
    verdict = found.verdict(place, CLAIM)
    shared = {found["first"]: side_of(found) for found in UPDATES.tests(place)}
    both = [(t["first"], side_of(t)) for t in found.tests(place) if t["first"] in shared]
    if both:
        other = [
            f"{label} ({side} from scratch, {shared[label]} from the start)"
            for label, side in both
            if side != shared[label]
        ]
        same = [label for label, side in both if side == shared[label]]
        verdict += f" From the shared start, this is the same for {', '.join(same) or 'none'}"
        verdict += f" and different for {', '.join(other)}." if other else "."
    return Section(blocks, verdict, found.missing(place))


def _of(budget: Budget) -> str:
    return f"Figure 4: BLEU over AL of all systems; here every system has {budget.title}"


PARTS = (
    Part(
        "main",
        "Quality over latency, all systems",
        "Figure 4: BLEU over AL on IWSLT15 En-Vi (Small), WMT15 De-En (Base and Big); HMT is above "
        "all others at every latency",
        steps,
        section,
        ("systems",),
        core,
    ),
    Part(
        "time",
        "The same with equal processor time",
        _of(EQUAL_TIME),
        time_steps,
        time_section,
        ("systems",),
        time_core,
    ),
    Part(
        "scratch",
        "The same from random weights",
        "Figure 4: BLEU over AL of all systems; here each from scratch, by its recipe",
        scratch_steps,
        scratch_section,
        ("systems",),
    ),
)
