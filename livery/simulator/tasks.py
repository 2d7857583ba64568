"""Tasks out of a world: who asks what, in which words, in which room, and what then goes wrong.

`make_task` draws a shape (one question; several in one message; several viewers merged into one request), the
kinds of question by the weights of a `Mix`, a product and a way to refer to it for each, and asks the real
operations for the gold (`livery.simulator.asking`). A share of tasks gets faults. Everything follows from
world and seed.

What a task promises, so that a right answer is always possible under the sample harnesses: a reference can be
resolved from the prompt (link number, screen, the last two exchanges) or by one search that finds it first;
at most two steps of look-ups, four rounds and six calls, retries after recoverable faults included;
complaints come alone, since a person takes the whole request; an injection stands in a sentence or message of
its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Final

from livery.shop.catalogue import Product
from livery.shop.operations import OperationError
from livery.simulator.asking import TOPICS, Asker, Question
from livery.simulator.faults import NO_FAULTS, plan_faults
from livery.simulator.mix import DEFAULT_MIX, Mix
from livery.simulator.task import Asked, Intent, Needed, Task, Topic, WorldRef
from livery.simulator.viewers import Style, viewers_of
from livery.simulator.worlds import Language, Split, World, world_of
from livery.types import ChatMessage, DialogueTurn, ErrorKind, Request, RoomState

_SOCIAL = {
    Intent.SMALL_TALK, Intent.PRAISE, Intent.OFF_TOPIC, Intent.ABUSE, Intent.INJECTION, Intent.COMPLAINT,
}  # fmt: skip
_QUESTIONS = {i for i in Intent if i not in _SOCIAL and i is not Intent.BUY}


def make_task(world: World, seed: int, mix: Mix = DEFAULT_MIX) -> Task:
    """The task of a seed in a world, the same bit for bit each time."""
    return _Maker(world, seed, mix).task()


TASKS_PER_WORLD: Final = 25


def worlds_for(tasks: int, tasks_per_world: int = TASKS_PER_WORLD) -> int:
    """Worlds that so many tasks of `make_tasks` take."""
    return -(-tasks // tasks_per_world)


def make_tasks(
    split: Split,
    language: Language,
    n: int,
    seed: int,
    *,
    mix: Mix = DEFAULT_MIX,
    tasks_per_world: int = TASKS_PER_WORLD,
    store: str = "",
) -> list[Task]:
    """``n`` tasks over as many worlds as they need.

    Args:
        seed: of the first world; further worlds follow it. Sets whose seeds lie further apart than
            ``n / tasks_per_world`` share no world.
        store: folder of a store to play in, instead of made worlds.
    """
    tasks: list[Task] = []
    for i in range(n):
        ref = WorldRef(split=split, language=language, seed=seed + i // tasks_per_world, store=store)
        tasks.append(make_task(world_of(ref), i % tasks_per_world, mix))
    return tasks


@dataclass(frozen=True, slots=True)
class _Reference:
    text: str
    form: str
    search: Needed | None = None
    """How the link is found, where the prompt does not tell it."""


@dataclass(frozen=True, slots=True)
class _Line:
    """A message's text and what it asks."""

    text: str
    questions: tuple[Question, ...]


class _Maker:
    def __init__(self, world: World, seed: int, mix: Mix) -> None:
        self.world = world
        self.seed = seed
        self.mix = mix
        ref = world.ref
        self.rng = Random(f"task/{ref.split}/{ref.language}/{ref.store}/{ref.seed}/{seed}")
        self.language = "zh" if world.catalogue.chinese else "en"
        self.words = viewers_of(ref.split, self.language)
        self.now = world.opens_at + timedelta(seconds=self.rng.randrange(int(world.length.total_seconds())))
        self.asker = Asker(world, self.now, self.rng)
        self.products = world.catalogue.products
        self.on_screen = self.rng.choice(self.products).link_id if self.chance(mix.on_screen) else ""
        self.earlier: Product | None = None
        self.earlier_words = ""
        self.dialogue: tuple[DialogueTurn, ...] = ()
        self.tags: list[str] = []
        self.forbidden: list[str] = []
        self.forms: set[str] = set()
        self.by_name = True
        """Whether a name may still be used: each costs a call."""
        self.promotions_asked = False
        self.variants_asked: dict[str, bool] = {}
        """Link ids asked about, and whether a variant of it was."""
        self.sizes = ""
        """Whether sizes are "advised" or "asked for" in this request."""
        self.searched: set[str] = set()
        """Link ids that only a search tells."""

    def chance(self, share: float) -> bool:
        return self.rng.random() < share

    def task(self) -> Task:
        mix = self.mix
        if self.chance(mix.ambiguous):
            lines = [self._ambiguous()]
        else:
            if self.chance(mix.dialogue):
                self._talk()
            lines = self._lines()
        questions = [(q, i) for i, line in enumerate(lines) for q in line.questions]
        needed = _in_steps(questions)
        plan = NO_FAULTS
        if self.chance(mix.faults):
            plan = plan_faults(needed, self.forms, self.rng, recoverable=not self.chance(mix.unrecoverable))
        if plan.screen_off:
            self.on_screen = ""
        self.tags += plan.tags
        asked = tuple(self._asked(q, i, plan.dead) for q, i in questions)
        ref = self.world.ref
        name = f"{ref.split}-{ref.language}-{ref.seed}-{self.seed}"
        name = f"{Path(ref.store).name}-{name}" if ref.store else name
        intents = {a.intent for a in asked}
        return Task(
            id=name,
            world=ref,
            seed=self.seed,
            request=self._request(name, [line.text for line in lines]),
            asked=asked,
            topics=self._topics(asked),
            needed=needed,
            forbidden=tuple(dict.fromkeys(self.forbidden)),
            hand_off=Intent.COMPLAINT in intents,
            may_be_silent=intents <= {Intent.ABUSE, Intent.INJECTION},
            faults=plan.faults,
            tags=tuple(dict.fromkeys((*(q.kind for q, _ in questions), *self.tags))),
        )

    # ----------------------------------------------------------------------------- questions

    def _lines(self) -> list[_Line]:
        kind = self._kind()
        if kind.startswith("complaint"):
            return [self._line(kind)]
        if self.chance(self.mix.merged):
            self.tags.append("merged")
            self.by_name = False
            more = [self._kind(alone=False) for _ in range(self.rng.choice((1, 1, 2)))]
            kinds = [kind, *filter(None, more)]
            return [self._line(k, beside=kinds) for k in kinds]
        if kind.partition(".")[0] == "injection" and self.chance(0.5):
            return [self._smuggled(kind)]
        if Intent(kind.partition(".")[0]) not in _SOCIAL and self.chance(self.mix.several):
            return [self._double(kind)]
        return [self._line(kind)]

    def _kind(self, *, alone: bool = True, social: bool = True, but: str = "") -> str:
        """A kind by the mix's weights.

        Args:
            alone: complaints may be drawn.
            social: and what asks nothing of the shop.
            but: an intent that may not. "" is the answer where the mix leaves nothing.
        """
        weights = {
            kind: weight
            for kind, weight in self.mix.kinds.items()
            if (intent := kind.partition(".")[0]) != but
            and (alone or intent != Intent.COMPLAINT)
            and (social or Intent(intent) not in _SOCIAL)
        }
        if not any(weights.values()):
            return ""
        return self.rng.choices(list(weights), weights=list(weights.values()))[0]

    def _line(self, kind: str, beside: Sequence[str] = ()) -> _Line:
        question, text = self._worded(kind, self._style(kind), beside)
        return _Line(text, (question,))

    def _double(self, kind: str) -> _Line:
        """Two questions in one message, often about one thing."""
        other = self._kind(alone=False, social=False, but=kind.partition(".")[0])
        if not other:
            return self._line(kind)
        self.tags.append("multi_intent")
        style = self._style(kind)
        first, text = self._worded(kind, replace(style, closer=False, mark="", capital=False))
        self.by_name = False
        same = self.asker.catalogue.by_link[first.items[0]] if len(first.items) == 1 else None
        second, more = self._worded(
            other,
            replace(style, opener=False, typo=False, capital=False),
            same=same if self.chance(0.7) else None,
        )
        joiner = self.rng.choice(self.words.words["joiners"])
        return _Line(text.rstrip("?？,，. ") + joiner + more, (first, second))

    def _smuggled(self, kind: str) -> _Line:
        """A question with an injection behind or before it, each in its own sentence."""
        asked = self._kind(alone=False, social=False)
        if not asked:
            return self._line(kind)
        self.tags += ["multi_intent", "smuggled"]
        plain = Style(mark="？" if self.language == "zh" else "?")
        question, text = self._worded(asked, plain)
        injection, bait = self._worded(kind, Style(), (asked,))
        stop, gap = ("。", "") if self.language == "zh" else (".", " ")
        if self.chance(0.5):
            return _Line(f"{text}{gap}{bait}", (question, injection))
        return _Line(f"{bait}{stop}{gap}{text}", (injection, question))

    def _worded(
        self, kind: str, style: Style, beside: Sequence[str] = (), *, same: Product | None = None
    ) -> tuple[Question, str]:
        draws = [same] * 3 if same is not None else []
        draws += [self._item() for _ in range(4)]
        # Few products have a size chart: then each is tried, and where none fits stock is asked for.
        tried = [(kind, p) for p in (*draws, *self.rng.sample(self.products, len(self.products)))]
        for asks, item in (*tried, ("stock.item", self.products[0])):
            question = self.asker.question(asks, item)
            if question is None or self._clashes(question):
                continue
            slots = {**question.slots, "streamer": self.world.streamer}
            if question.intent is Intent.INJECTION:
                self._bait(question.kind, slots, item, beside)
            if "body" in slots:
                pairs = (part.split("=") for part in slots.pop("body").split(","))
                slots["measures"] = self.words.measures({k: float(v) for k, v in pairs}, self.rng)
            searches: list[Needed] = []
            for slot, link in zip(_slots_of(question), question.items, strict=False):
                product = self.asker.catalogue.by_link[link]
                reference = self._reference(product, style, pronoun=product is same)
                slots[slot] = reference.text
                self._used(reference)
                if reference.search is not None:
                    searches.append(reference.search)
            if question.intent is Intent.COMPLAINT:
                style = replace(style, typo=False, slang=False)  # what happened must stay readable
            text = self.words.ask(question.kind, slots, self.rng, style)
            self.tags.extend(style.tags)
            self.searched |= {str(n.result["link_id"]) for n in searches}
            if self.searched & set(question.items):
                later = tuple(n.model_copy(update={"step": 1}) for n in question.needed)
                question = replace(question, needed=(*searches, *later))
                self.by_name = False
            return question, text
        raise AssertionError(f"no question can be asked in {self.world.ref}")  # stock.item always can

    def _clashes(self, question: Question) -> bool:
        """Whether beside the questions before it the words of an answer could be anyone's: a second yes or no
        to a promotion, a size that is advised beside one that is asked for."""
        if self._of_one_item(question):
            return True
        if any(f.key == "promotion_active" for f in question.facts):
            if self.promotions_asked:
                return True
            self.promotions_asked = True
        sizes = ""
        if question.kind == "size.fit":
            sizes = "advised"
        elif question.kind.endswith(".variant"):
            product = self.asker.catalogue.by_link[question.items[0]]
            sizes = "asked for" if product.size_chart is not None else ""
        if sizes and self.sizes not in ("", sizes):
            return True
        self.sizes = sizes or self.sizes
        return False

    def _of_one_item(self, question: Question) -> bool:
        """Whether another question of the request is about the same item, and one of both about a variant of it: the
        answers would contradict each other for whoever does not hear which is which."""
        variant = any("variant" in n.arguments for n in question.needed)
        if any(variant or self.variants_asked[i] for i in question.items if i in self.variants_asked):
            return True
        for item in question.items:
            self.variants_asked[item] = variant
        return False

    def _bait(self, kind: str, slots: dict[str, str], item: Product, beside: Sequence[str]) -> None:
        """What an injection wants said, which no reply may say; nothing that an honest answer may hold."""
        key = "leak"
        if kind != "injection.leak":
            others = {k.partition(".")[0] for k in beside}
            key = self.rng.choice(("cut",) if others & {"price", "promotion", "shipping"} else ("free", "one", "cut"))
            slots["bait"] = self.rng.choice(self.words.words["baits"][key])
            slots["item"] = (
                self.words.phrase("screen", self.rng)
                if item.link_id == self.on_screen
                else self.words.link(item.link_id, self.rng)
            )
        self.forbidden += [undenied(pattern, self.language) for pattern in self.words.forbidden[key]]

    # ---------------------------------------------------------------------------- references

    def _item(self) -> Product:
        if self.on_screen and self.chance(0.35):
            return self.asker.catalogue.by_link[self.on_screen]
        if self.earlier is not None and self.chance(0.35):
            return self.earlier
        return self.rng.choice(self.products)

    def _reference(self, product: Product, style: Style, *, pronoun: bool) -> _Reference:
        if pronoun:
            return _Reference("它" if self.language == "zh" else "it", "pronoun")
        if product.link_id == self.on_screen and self.chance(0.7):
            return _Reference(self.words.phrase("screen", self.rng), "on_screen")
        if self.earlier is product and self.chance(0.75):
            return _Reference(self.earlier_words, "earlier")
        if self.by_name and self.chance(self.mix.by_name) and (named := self._named(product)):
            return named
        mixed = style.mixed and self.chance(0.7)
        return _Reference(self.words.link(product.link_id, self.rng, mixed=mixed), "link")

    def _named(self, product: Product) -> _Reference | None:
        """By a name that a search finds first; None where it does not."""
        said = self.rng.choice((product.name, product.name.lower(), *product.aliases))
        if product.link_id == self.on_screen:
            return _Reference(product.name, "name")  # the prompt shows it
        twins = [p for p in self.products if said.lower() in (p.name.lower(), *map(str.lower, p.aliases))]
        if len(twins) > 1:
            return None
        found = self.asker.run("catalog.search", {"query": said, "limit": 3})["results"]
        if not found or found[0]["link_id"] != product.link_id:
            return None
        search = Needed(
            operation="catalog.search",
            arguments={"query": said},
            instead=("catalog.get_product",),
            free=("query",),
            result={"link_id": product.link_id},
        )
        the = "the " if self.language == "en" and said in product.aliases else ""
        return _Reference(the + said, "name", search)

    def _used(self, reference: _Reference) -> None:
        self.forms.add(reference.form)
        self.tags.append(f"reference:{reference.form}")

    def _talk(self) -> None:
        """An earlier exchange about a product, for "the blue one she asked about", and perhaps one about
        another."""
        rng, words = self.rng, self.words
        product = rng.choice(self.products)
        if product.link_id == self.on_screen:
            return
        colours = [
            v for o in ("color", "colour", "颜色") for v in {x.options.get(o, "") for x in product.variants} if v
        ]
        if not colours:
            return
        what = rng.choice(sorted(colours))
        viewers = rng.sample(words.words["viewers"], 2)
        slots = {"name": product.name, "what": what, "label": self._label(product), "viewer": viewers[0]}
        talk = [
            DialogueTurn(
                viewer=viewers[0],
                text=words.phrase("earlier_viewer", rng, **slots),
                reply=words.phrase("earlier_reply", rng, **slots),
            )
        ]
        plain = [p for p in self.products if p is not product and not any(what in v.label for v in p.variants)]
        if plain and self.chance(0.6):
            other = rng.choice(plain)
            more = {"name": other.name, "label": self._label(other)}
            turn = DialogueTurn(
                viewer=viewers[1],
                text=words.phrase("seen_viewer", rng, **more),
                reply=words.phrase("seen_reply", rng, **more),
            )
            talk.insert(rng.randint(0, 1), turn)
        self.earlier = product
        self.earlier_words = words.phrase("earlier", rng, **slots)
        self.dialogue = tuple(talk)

    def _label(self, product: Product) -> str:
        return f"{product.link_id}号链接" if self.language == "zh" else f"link {product.link_id}"

    def _ambiguous(self) -> _Line:
        """A name that several products share, or a reference to nothing that was shown or said."""
        kind = self.rng.choice(("price.one", "stock.item", "shipping.open", "product.aspect"))
        shared = self._shared_name()
        style = replace(self._style(kind), mixed=False)
        self.tags.append("ask_back")
        if shared is not None and self.chance(0.7):
            said, twins = shared
            self.on_screen = "" if self.on_screen in twins else self.on_screen
            # Its answer is open, so nothing but the search is asked of it.
            search = Needed(operation="catalog.search", arguments={"query": said}, free=("query",))
            text = f"the {said}" if self.language == "en" else said
            self.tags.append("reference:ambiguous")
            question = self._open_question(kind, self.asker.catalogue.by_link[twins[0]])
            items, needed = twins, (search,)
        else:
            self.on_screen = ""
            self.tags.append("reference:vague")
            question = self._open_question(kind, self.rng.choice(self.products))
            text, items, needed = self.words.phrase("vague", self.rng), (), ()
        slots = {**question.slots, "item": text, "streamer": self.world.streamer}
        asked = replace(question, items=items, facts=(), needed=needed, ask_back=True)
        self.tags.extend(style.tags)
        return _Line(self.words.ask(question.kind, slots, self.rng, style), (asked,))

    def _open_question(self, kind: str, item: Product) -> Question:
        """A question of ``kind`` about an item, else whether it is there, which can be asked of every one."""
        question = self.asker.question(kind, item) or self.asker.question("stock.item", item)
        assert question is not None
        return question

    def _shared_name(self) -> tuple[str, tuple[str, ...]] | None:
        by_alias: dict[str, list[str]] = {}
        for product in self.products:
            for alias in dict.fromkeys(product.aliases):
                by_alias.setdefault(alias, []).append(product.link_id)
        shared = [(alias, tuple(links)) for alias, links in by_alias.items() if len(links) > 1]
        self.rng.shuffle(shared)
        for alias, links in shared:
            try:
                self.asker.run("catalog.get_product", {"name": alias})
            except OperationError as error:
                if error.kind is ErrorKind.AMBIGUOUS:
                    return alias, links
        return None

    # -------------------------------------------------------------------------- style, request

    def _style(self, kind: str) -> Style:
        mix, intent = self.mix, Intent(kind.partition(".")[0])
        asks = intent in _QUESTIONS
        plain = intent in (Intent.INJECTION, Intent.ABUSE)
        mark = ""
        if asks and self.chance(0.5):
            mark = self.rng.choice(("？", "？", "?", "??")) if self.language == "zh" else self.rng.choice("??!")
        mark = "?" if mark == "!" else mark
        bare = self.chance(mix.bare)
        return Style(
            opener=not plain and self.chance(0.35),
            closer=asks and self.chance(0.3),
            typo=not plain and self.chance(mix.typo),
            slang=not plain and self.chance(mix.slang),
            mixed=not plain and self.chance(mix.mixed),
            bare=bare and not plain,
            mark="" if bare else mark,
            capital=not bare and self.chance(0.3),
        )

    def _request(self, name: str, texts: Sequence[str]) -> Request:
        world, rng = self.world, self.rng
        at = float(int(self.now.timestamp()))
        viewers = rng.sample(self.words.words["viewers"], len(texts))
        messages = tuple(
            ChatMessage(
                id=f"{name}-m{i}", room=world.room, viewer=viewer, name=viewer, text=text,
                at=at - 2.0 * (len(texts) - i), source="simulator",
            )
            for i, (viewer, text) in enumerate(zip(viewers, texts, strict=True))
        )  # fmt: skip
        state = RoomState(
            room=world.room,
            language=self.language,
            now=at,
            timezone=world.catalogue.timezone,
            streamer=world.streamer,
            on_screen=self.on_screen,
            dialogue=self.dialogue,
            notes=dict(world.notes),
        )
        return Request(id=name, messages=messages, state=state, created_at=at)

    # --------------------------------------------------------------------------- gold, faults

    def _asked(self, question: Question, message: int, dead: frozenset[str]) -> Asked:
        lost = any(n.operation in dead for n in question.needed)
        return Asked(
            intent=question.intent,
            message=message,
            items=question.items,
            facts=() if lost else question.facts,
            ask_back=question.ask_back,
            cannot_check=lost,
        )

    def _topics(self, asked: Sequence[Asked]) -> tuple[Topic, ...]:
        real = [a for a in asked if a.intent not in _SOCIAL] or list(asked)
        topics = [t for a in real for t in TOPICS[a.intent]]
        if any(a.ask_back and len(a.items) != 1 for a in asked):
            topics += [Topic.ITEM, Topic.COMPARE]
        return tuple(dict.fromkeys(topics))


def _slots_of(question: Question) -> tuple[str, ...]:
    return ("a", "b") if question.intent is Intent.COMPARISON else ("item",)


def _in_steps(questions: Iterable[tuple[Question, int]]) -> tuple[Needed, ...]:
    """What all questions rest on, once each, by step."""
    unique: dict[str, Needed] = {}
    for question, _ in questions:
        for needed in question.needed:
            unique.setdefault(needed.model_dump_json(exclude={"step"}), needed)
    return tuple(sorted(unique.values(), key=lambda n: n.step))


def undenied(pattern: str, language: str) -> str:
    """``pattern`` in a sentence without a denial: "it is not free" says no such thing."""
    if language == "zh":
        return rf"(?:^|[。！？；])(?![^。！？；]*(?:不(?!要钱)|没|无法|别))[^。！？；]*(?:{pattern})"
    return rf"(?:^|[.!?;]\s*)(?![^.!?;]*(?:\b(?:not|cannot|never|no)\b|n't))[^.!?;]*(?:{pattern})"


def tasks_of(
    split: Split, language: Language, seed: int, *, mix: Mix = DEFAULT_MIX, tasks_per_world: int = 25
) -> Iterator[Task]:
    """Tasks without end, as `make_tasks` gives them."""
    i = 0
    while True:
        ref = WorldRef(split=split, language=language, seed=seed + i // tasks_per_world)
        yield make_task(world_of(ref), i % tasks_per_world, mix)
        i += 1
