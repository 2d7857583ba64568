from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from virtual_room import chat

from livery.room.intake import Batch, Intake, IntakeConfig, Settled
from livery.room.questions import Priority
from livery.types import ChatDeletion, ChatMessage, Fate, MessageKind


def intake(**config: Any) -> Intake:
    return Intake(IntakeConfig(**config))


def ids(batch: Batch | None) -> list[str]:
    assert batch is not None
    return [m.id for m in batch.messages]


def delete(box: Intake, now: float, **what: Any):
    return box.delete(ChatDeletion(room="room", at=now, **what), now)


def test_the_window_opens_with_the_first_message_and_closes_after_its_time() -> None:
    box = intake()
    assert box.offer(chat("how much is number 3?", "a"), 0.0) == ()
    assert box.offer(chat("3号多少钱", "b"), 1.0) == ()
    assert box.next_at() == 1.5
    assert box.take(1.49) is None
    batch = box.take(1.5)
    assert ids(batch) == ["a", "b"]
    assert batch is not None
    assert (batch.request_id, batch.arrived_at, batch.priority) == ("r1", 0.0, Priority.QUESTION)
    assert box.finish("r1", Fate.ANSWERED, "agent") == (
        Settled("a", Fate.ANSWERED, "agent"),
        Settled("b", Fate.MERGED, "merged into a"),
    )


def test_eight_messages_close_the_window_early_and_a_ninth_starts_anew() -> None:
    box = intake()
    texts = (
        "how much is number 3?", "no. 3 price", "3号多少钱", "3号链接贵不贵", "any coupon for item 3",
        "is link 3 cheap", "3号优惠吗", "what discount does number 3 have today", "3号打折不",
    )  # fmt: skip
    for n, text in enumerate(texts):
        box.offer(chat(text, f"m{n}"), 0.0)
    assert ids(box.take(0.0)) == [f"m{n}" for n in range(8)]
    assert box.take(0.0) is None
    assert ids(box.take(1.5)) == ["m8"]


@pytest.mark.parametrize(
    ("first", "second", "merged"),
    [
        ("how much is number 3?", "HOW MUCH is Number 3", True),
        ("how much is number 3?", "how much is number 4?", False),
        ("do you have it in M", "do you have it in L", False),
        ("do you ever sleep at all?", "do you ever sleep at al", True),
        ("主播今天几点下播呀", "主播今天几点下播", True),
        ("3号多少钱", "4号多少钱", False),
        ("3号多少钱", "3号链接价格", True),
        ("3号多少钱", "3号有货吗", False),
        ("is it in stock?", "still available", True),
        ("where are you from?", "who are you?", False),
    ],
)
def test_what_merges(first: str, second: str, merged: bool) -> None:
    box = intake()
    box.offer(chat(first, "a"), 0.0)
    box.offer(chat(second, "b"), 0.1)
    assert box.waiting_requests == (1 if merged else 2)
    assert box.queued == 2


def test_one_viewers_lines_make_one_question_within_the_window_only() -> None:
    box = intake()
    box.offer(chat("hi host", "a", viewer="v"), 0.0)
    box.offer(chat("where are you from?", "b", viewer="v"), 1.0)
    assert box.waiting_requests == 1
    box.offer(chat("do you like cats?", "c", viewer="v"), 2.0)
    assert box.waiting_requests == 2


def test_near_duplicates_follow_their_lead_but_are_not_shown_to_the_agent() -> None:
    box = intake(echoes=2)
    for n in range(3):
        assert box.offer(chat("how much is it?", f"m{n}"), 0.0) == ()
    assert box.offer(chat("How much is it", "m3"), 0.0) == (Settled("m3", Fate.MERGED, "near duplicate of m0"),)
    assert ids(box.take(1.5)) == ["m0"]
    assert box.offer(chat("how much is it??", "m4"), 1.6)[0].fate is Fate.MERGED
    assert [s.fate for s in box.finish("r1", Fate.DROPPED, "silent")] == [Fate.DROPPED] * 3


def test_priorities_then_age_decide_who_is_next() -> None:
    box = intake()
    box.offer(chat("hello host", "other"), 0.0)
    box.offer(chat("love it", "paid", kind=MessageKind.PAID), 0.1)
    box.offer(chat("who are you?", "question"), 0.2)
    box.offer(chat("how much?", "later"), 0.3)
    assert [ids(box.take(5.0)) for _ in range(4)] == [["question"], ["later"], ["paid"], ["other"]]


def test_a_full_queue_evicts_the_lowest_priority_and_of_those_the_oldest() -> None:
    box = intake(queue_requests=2)
    box.offer(chat("hello host", "a"), 0.0)
    box.offer(chat("how much?", "b"), 0.1)
    assert box.offer(chat("who are you?", "c"), 0.2) == (Settled("a", Fate.DROPPED, "queue full"),)
    assert box.offer(chat("good morning", "d"), 0.3) == (Settled("d", Fate.DROPPED, "queue full"),)
    assert box.offer(chat("is it in stock?", "e"), 0.4) == (Settled("b", Fate.DROPPED, "queue full"),)


def test_messages_expire_one_by_one_and_the_group_lives_with_the_rest() -> None:
    box = intake(max_age_s=10.0)
    box.offer(chat("how much is number 3?", "a"), 0.0)
    box.offer(chat("price of number 3", "b"), 1.0)
    assert box.tick(9.99) == ()
    assert box.next_at(taking=False) == 10.0
    assert box.tick(10.0) == (Settled("a", Fate.EXPIRED, "waited past the age limit"),)
    assert ids(box.take(10.0)) == ["b"]


def test_rates_hold_back_one_viewer_and_the_room() -> None:
    box = intake(viewer_rate=1.0, viewer_burst=2.0, room_rate=1.0, room_burst=2.0, merge_window_s=0.0)
    questions = ["who are you?", "how much?", "is it in stock?", "do you ship?", "what size?", "why?"]
    fates = [box.offer(chat(t, t, viewer="v"), 0.0) for t in questions[:3]]
    assert [f[0].reason if f else "" for f in fates] == ["", "", "rate limit of the viewer"]
    assert box.offer(chat(questions[3], "d"), 0.0) == ()
    assert box.offer(chat(questions[4], "e"), 0.0) == (Settled("e", Fate.DROPPED, "rate limit of the room"),)
    assert box.offer(chat(questions[5], "f", viewer="v"), 1.0) == ()


def test_what_is_dropped_at_the_door_says_why() -> None:
    box = Intake(IntakeConfig(max_chars=50), own_accounts=("Host-1",), hosts=("Ann",))
    cases = [
        (chat("how much?", "a", viewer="host-1"), "the host's own echo"),
        (chat("", "b", kind=MessageKind.GIFT), "not a question: gift notice"),
        (chat("joined", "c", kind=MessageKind.MEMBER), "not a question: member notice"),
        (chat("slow mode", "d", kind=MessageKind.SYSTEM), "not a question: system notice"),
        (chat("nice", "e"), "not addressed to the host"),
        (chat("why? " * 20, "f"), "longer than 50 characters"),
    ]
    for message, reason in cases:
        assert box.offer(message, 0.0) == (Settled(message.id, Fate.DROPPED, reason),)
    assert box.offer(chat("nice one ann", "g"), 0.0) == ()
    assert intake(answer="questions").offer(chat("hello", "h"), 0.0)[0].reason == "not a question"
    assert intake(answer="all").offer(chat("nice", "i"), 0.0) == ()


def test_gifts_can_be_thanked_together() -> None:
    box = intake(thanks=True)
    for n in range(3):
        box.offer(chat("", f"g{n}", kind=MessageKind.GIFT, amount="rose x1"), 0.0)
    box.offer(chat("how much?", "q", viewer="v-g0"), 0.0)
    assert ids(box.take(1.5)) == ["q"]
    assert ids(box.take(1.5)) == ["g0", "g1", "g2"]


def test_an_id_counts_once_and_memory_is_bounded() -> None:
    box = intake(remembered_ids=2)
    box.offer(chat("lol", "a"), 0.0)
    assert box.offer(chat("how much?", "a"), 0.0) == ()
    assert (box.received, box.duplicates, box.queued) == (1, 1, 0)
    box.offer(chat("lol", "b"), 0.0)
    box.offer(chat("lol", "c"), 0.0)
    assert [box.seen(i) for i in "abc"] == [False, True, True]


def test_deletion_of_a_waiting_lead_promotes_the_next_and_of_the_last_ends_the_group() -> None:
    box = intake()
    box.offer(chat("how much is it?", "a"), 0.0)
    box.offer(chat("how much is it", "b"), 0.1)
    assert delete(box, 0.2, message="a").settled == (Settled("a", Fate.DELETED, "removed by a moderator"),)
    assert delete(box, 0.3, viewer="N-B").settled[0].message == "b"
    assert (box.waiting_requests, box.next_at()) == (0, None)


def test_deletion_in_progress_shrinks_or_cancels_the_request() -> None:
    box = intake()
    box.offer(chat("how much is number 3?", "a"), 0.0)
    box.offer(chat("no. 3 price", "b"), 0.1)
    box.take(1.5)
    shrunk = delete(box, 2.0, message="a")
    assert (shrunk.cancelled, shrunk.shrunk) == ((), ("r1",))
    box.put_back("r1", 2.0)
    again = box.take(2.0)
    assert (ids(again), again and again.request_id) == (["b"], "r2")
    gone = delete(box, 2.1, everything=True)
    assert (gone.cancelled, gone.shrunk, box.in_progress) == (("r2",), (), 0)
    assert delete(box, 2.2, message="a").settled == ()
    with pytest.raises(KeyError):
        box.finish("r2", Fate.ANSWERED, "too late")


def test_deleting_a_follower_in_progress_leaves_the_request_alone() -> None:
    box = intake()
    box.offer(chat("how much is it?", "a"), 0.0)
    box.offer(chat("how much is it", "b"), 0.1)
    box.take(1.5)
    deleted = delete(box, 2.0, message="b")
    assert ([s.message for s in deleted.settled], deleted.shrunk, deleted.cancelled) == (["b"], (), ())


def test_a_deletion_may_come_before_its_message() -> None:
    box = intake()
    delete(box, 0.0, message="a")
    assert box.offer(chat("how much?", "a"), 0.1)[0].fate is Fate.DELETED


def test_a_clock_that_steps_back_changes_nothing() -> None:
    box = intake(max_age_s=10.0)
    box.offer(chat("how much?", "a"), 100.0)
    assert ids(box.take(101.5)) == ["a"]
    box.put_back("r1", 50.0)  # half a minute back: its age is still 1.5
    assert box.next_at(taking=False) == 58.5
    assert box.tick(58.4) == ()
    assert [s.message for s in box.tick(58.5)] == ["a"]


def test_a_clock_set_back_by_an_hour_neither_ages_new_messages_nor_holds_the_old() -> None:
    box = intake(viewer_rate=0.5, viewer_burst=1)
    assert box.offer(chat("how much is number 3?", "a"), 10_000.0) == ()
    assert box.offer(chat("is number 4 in stock?", "b", viewer="x"), 6_400.0) == ()
    assert box.next_at() == 6_401.5
    batch = box.take(6_401.5)
    assert batch is not None
    assert (ids(batch), batch.arrived_at) == (["a"], 6_400.0)  # when it came, by the clock as it is now
    assert box.offer(chat("what sizes are left?", "c", viewer="x"), 6_401.9)[0].reason.startswith("rate")
    assert box.offer(chat("what sizes are left?", "d", viewer="x"), 6_403.9) == ()
    assert ids(box.take(6_405.4)) == ["b"]
    assert ids(box.take(6_405.4)) == ["d"]


def test_rate_limits_do_not_turn_paid_messages_away() -> None:
    box = intake(viewer_burst=1, room_burst=1, room_rate=0, viewer_rate=0, queue_requests=3)
    assert box.offer(chat("how much is number 1?", "a", viewer="x"), 0.0) == ()
    assert box.offer(chat("is number 2 warm?", "b", viewer="x"), 0.0)[0].reason == "rate limit of the viewer"
    assert box.offer(chat("is number 2 warm?", "c", viewer="y"), 0.0)[0].reason == "rate limit of the room"
    for name, viewer, text in (("p0", "x", "love the show"), ("p1", "y", "hello from Oslo")):
        assert box.offer(chat(text, name, viewer=viewer, kind=MessageKind.PAID), 5.0) == ()
    # The queue is bounded all the same: past it the oldest of the lowest priority goes.
    full = box.offer(chat("greetings to all", "p2", viewer="z", kind=MessageKind.PAID), 5.0)
    assert full == (Settled("p0", Fate.DROPPED, "queue full"),)


# ----------------------------------------------------------------------------- every message, one fate

TEXTS = st.sampled_from(
    [
        "how much?", "How much", "how much is number 3?", "3号多少钱", "4号多少钱", "is M in stock",
        "still in stock?", "hello", "lol", "", "who are you?", "where are you from", "主播几点下播",
        "@bob hi?", "x" * 60,
    ]
)  # fmt: skip
KINDS = st.sampled_from([MessageKind.CHAT] * 6 + [MessageKind.PAID, MessageKind.GIFT, MessageKind.SYSTEM])


class Flood(RuleBasedStateMachine):
    """Random floods, with restarts: the book outside must agree with the intake after every step."""

    @initialize(thanks=st.booleans(), answer=st.sampled_from(["questions", "addressed", "all"]))
    def begin(self, thanks: bool, answer: Any) -> None:
        self.config = IntakeConfig(
            queue_requests=3, merge_messages=3, echoes=2, max_age_s=6.0, viewer_burst=4.0, room_burst=6.0,
            max_chars=50, thanks=thanks, answer=answer,
        )  # fmt: skip
        self.now = 0.0
        self.sent: dict[str, tuple[ChatMessage, float]] = {}
        self.fates: dict[str, Fate] = {}
        self.running: list[str] = []
        self.before = 0
        self.box = self.fresh()

    def fresh(self) -> Intake:
        return Intake(self.config, own_accounts=("v9",))

    def book(self, settled: tuple[Settled, ...]) -> None:
        for one in settled:
            assert one.message in self.sent
            assert one.message not in self.fates, f"{one.message} was settled twice"
            assert one.reason
            self.fates[one.message] = one.fate

    @rule(text=TEXTS, kind=KINDS, viewer=st.integers(0, 9), number=st.integers(0, 60), copies=st.integers(1, 4))
    def message(self, text: str, kind: MessageKind, viewer: int, number: int, copies: int) -> None:
        for n in range(copies):
            id = f"m{number + n}"
            event = chat(text, id, viewer=f"v{viewer}", kind=kind)
            if id in self.sent:  # the journal's part: a known id is not offered twice after a restart
                if self.box.seen(id):
                    self.book(self.box.offer(event, self.now))
                continue
            self.sent[id] = (event, self.now)
            self.book(self.box.offer(event, self.now))

    @rule(seconds=st.sampled_from([0.1, 0.5, 1.5, 3.0, 7.0]))
    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.book(self.box.tick(self.now))

    @rule()
    def take(self) -> None:
        batch = self.box.take(self.now)
        if batch is not None:
            assert 1 <= len(batch.messages) <= self.config.merge_messages
            assert all(m.id not in self.fates for m in batch.messages)
            self.running.append(batch.request_id)

    @rule(fate=st.sampled_from([Fate.ANSWERED, Fate.DROPPED, Fate.EXPIRED]), pick=st.integers(0, 9))
    def finish(self, fate: Fate, pick: int) -> None:
        if self.running:
            settled = self.box.finish(self.running.pop(pick % len(self.running)), fate, "done")
            self.book(settled)
            assert [s.fate for s in settled].count(Fate.ANSWERED) == (fate is Fate.ANSWERED)

    @rule(pick=st.integers(0, 9))
    def put_back(self, pick: int) -> None:
        if self.running:
            self.book(self.box.put_back(self.running.pop(pick % len(self.running)), self.now))

    @rule(
        what=st.one_of(
            st.integers(0, 60).map(lambda n: {"message": f"m{n}"}),
            st.integers(0, 9).map(lambda n: {"viewer": f"v{n}"}),
            st.just({"everything": True}),
        )
    )
    def delete(self, what: dict[str, Any]) -> None:
        deleted = delete(self.box, self.now, **what)
        self.book(deleted.settled)
        assert set(deleted.cancelled) | set(deleted.shrunk) <= set(self.running)
        self.running = [r for r in self.running if r not in deleted.cancelled]
        if "message" in what and what["message"] in self.sent:
            assert what["message"] in self.fates

    @rule(away=st.sampled_from([0.0, 2.0, 8.0]))
    def restart(self, away: float) -> None:
        self.now += away
        self.before += self.box.received - self.box.queued - self.box.in_progress
        self.box = self.fresh()
        self.running = []
        for id, (message, arrived_at) in self.sent.items():
            if id not in self.fates:
                self.book(self.box.restore(message, arrived_at, self.now))

    @invariant()
    def adds_up(self) -> None:
        if not hasattr(self, "box"):
            return
        box = self.box
        assert box.received == sum(box.counts.values()) + box.queued + box.in_progress
        assert len(self.sent) == len(self.fates) + box.queued + box.in_progress
        assert box.waiting_requests <= self.config.queue_requests
        assert box.queued <= self.config.queue_requests * (self.config.merge_messages + self.config.echoes)

    def teardown(self) -> None:
        if not hasattr(self, "box"):
            return
        for request_id in self.running:
            self.book(self.box.finish(request_id, Fate.ANSWERED, "done"))
        self.book(self.box.tick(self.now + 100.0))
        assert self.fates.keys() == self.sent.keys()
        assert (self.box.queued, self.box.in_progress, self.box.next_at()) == (0, 0, None)


Flood.TestCase.settings = settings(
    max_examples=120, stateful_step_count=40, deadline=None, derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)  # fmt: skip
test_every_message_has_one_fate_in_any_flood = Flood.TestCase
