"""Every kind of move has a sentence, and every part of a state its decoded form."""

import pytest

from highwater.checkers.model.protocol.moves import Move
from highwater.checkers.model.protocol.readable_state import FetchAnswer, LogEntry
from highwater.checkers.model.protocol.step_sentences import says
from tests.support.model_dsl import Play, row_of

SENTENCES = [
    ("", "send A", "A appends m1 at offset 0"),
    ("", "kill A", "A is killed"),
    ("", "pause A", "A is paused"),
    ("pause A", "resume A", "A goes on"),
    (
        "kill A, expire A B",
        "start A",
        "A starts; B is to lead in epoch 1, ISR {B, C}",
    ),
    ("", "stop A C", "A is shut down in order; C is to lead in epoch 1, ISR {B, C}"),
    ("", "move B", "leadership is moved to B; B is to lead in epoch 1, ISR {A, B, C}"),
    ("send A", "lag A C", "C lags: A drops C from the ISR"),
    ("kill A", "expire A B", "A's session ends; B is to lead in epoch 1, ISR {B, C}"),
    (
        "kill B, expire B B, kill C, expire C C, kill A",
        "expire A A",
        "A's session ends; no broker leads in epoch 3, ISR {A}",
    ),
    (
        "pause C, expire C C, resume C",
        "register C",
        "C registers again; A is to lead in epoch 1, ISR {A, B}",
    ),
    ("move B", "learn B", "B learns that it leads"),
    ("move B", "learn C", "C learns that B leads"),
    ("send A", "fetch B", "B fetches from A: gets one record, LEO 1"),
    ("send A, send A", "fetch B", "B fetches from A: gets 2 records, LEO 2"),
    ("", "fetch B", "B fetches from A: gets nothing new"),
    (
        "send A, fetch B, fetch B, fetch C",
        "fetch C",
        "C fetches from A: gets nothing new; A commits up to 1",
    ),
    ("send A, fetch B, fetch B, fetch C, fetch C", "fetch B", "B fetches from A: HW 1"),
    (
        "send A, lag A C, confirm A",
        "fetch C",
        "C fetches from A: gets one record, LEO 1; C joins the ISR",
    ),
    (
        "send A, move B, learn A, learn B",
        "fetch A",
        "A fetches from B: truncates its log from 1 to 0",
    ),
    ("send A", "ask B", "B fetches from A, and the answer is late"),
    ("send A, ask B", "receive B", "the late answer reaches B, which gets one record, LEO 1"),
    (
        "send A, ask B, move B, learn B",
        "receive B",
        "the late answer reaches B, which gets nothing new",
    ),
    ("send A, pause C", "shrink A C", "A drops C from the ISR"),
    ("send A, pause C, shrink A C", "confirm A", "A learns that its ISR is accepted"),
    (
        "send A, fetch B, fetch B, pause C, shrink A C",
        "confirm A",
        "A learns that its ISR is accepted, and commits up to 1",
    ),
    (
        "send A, fetch B, fetch B, fetch C, fetch C",
        "checkpoint A",
        "A writes HW 1 to disk",
    ),
]


@pytest.mark.parametrize(("script", "move", "sentence"), SENTENCES)
def test_a_move_in_words(script: str, move: str, sentence: str) -> None:
    play = Play.of("2.8.2").do(script)
    before = play.vector
    assert says(*row_of(move), before, play.do(move).vector) == sentence


ELSEWHERE = [
    (
        "4.3.1",
        "move B, move C",
        "skip A",
        "A learns that C leads, without the decisions in between",
    ),
    (
        "2.1.1",
        "send A, move B, learn A, learn B",
        "truncate A",
        "A asks B where its epoch ended, and truncates its log from 1 to 0",
    ),
    (
        "2.1.1",
        "move B, learn A, learn B",
        "truncate A",
        "A asks B where its epoch ended, and truncates",
    ),
    (
        "0.10.2.2",
        "send A, move B",
        "learn A",
        "A learns that B leads, and truncates its log from 1 to 0",
    ),
    (
        "2.4.1",
        "send A, fetch B, fetch B, pause C",
        "shrink A C",
        "A drops C from the ISR, and commits up to 1",
    ),
    ("2.8.2", "send A", "batch A 2", "A appends m2 to m3 in one batch, from offset 1"),
    (
        "2.8.2",
        "move B, move A",
        "failover",
        "the controller dies, and the next controller sends the present state",
    ),
    (
        "2.8.2",
        "send A, fetch B, pause B, expire B B, kill B",
        "wipe B",
        "B's disk is replaced by an empty one",
    ),
    (
        "2.8.2",
        "stop B B, stop C C, kill A, expire A A, start B",
        "elect B",
        "an operator asks for an unclean election; B is to lead in epoch 4, ISR {B}",
    ),
    (
        "2.8.2",
        "pause B, expire B B, learn A, resume B, register B, learn B",
        "propose B",
        "B fetches from A: gets nothing new; A asks to add B to the ISR, and the request is late",
    ),
    (
        "2.8.2",
        "pause B, expire B B, learn A, resume B, register B, learn B, propose B",
        "admit A",
        (
            "A's request for a larger ISR reaches the controller;"
            " A is to lead in epoch 1, ISR {A, B, C}"
        ),
    ),
    (
        "2.8.2",
        "pause B, expire B B, learn A, resume B, register B, learn B, propose B, move C",
        "admit A",
        "A's request for a larger ISR reaches the controller, which refuses it",
    ),
    (
        "3.9.2",
        "",
        "reassign CA",
        "an operator asks for the replicas A and C; A is to lead in epoch 1, ISR {A, C}",
    ),
    (
        "3.9.2",
        "send A, fetch B, reassign AC",
        "learn B",
        "B learns that it has no replica, and deletes its log",
    ),
    (
        "3.9.2",
        "reassign AC, learn A, learn B, learn C",
        "reassign ABC",
        "an operator asks for the replicas A, B and C, which must be in sync first",
    ),
    (
        "3.9.2",
        "reassign AB, learn A, learn B, learn C, reassign CA, learn A, learn B, learn C",
        "fetch C",
        "C fetches from A: gets nothing new; C is in sync, and the reassignment is complete: A ",
    ),
    (
        "3.9.2",
        "reassign AB, reassign ABC",
        "cancel A",
        "the operator cancels the reassignment; A is to lead in epoch 2, ISR {A, B}",
    ),
]


@pytest.mark.parametrize(("kafka", "script", "move", "sentence"), ELSEWHERE)
def test_a_move_in_words_of_another_release(
    kafka: str, script: str, move: str, sentence: str
) -> None:
    play = Play.of(kafka).do(script)
    before = play.vector
    assert says(*row_of(move), before, play.do(move).vector).startswith(sentence)


def test_a_round_in_words() -> None:
    play = Play.of("2.8.2", by="round").do("send A")
    told = []
    for move in ("run ABC", "tell ABC", "save A", "move B", "run B", "run AC"):
        before = play.vector
        told.append(says(*row_of(move), before, play.do(move).vector))
    assert told[0].startswith("A, B and C run: A HW 1; B gets one record, LEO 1")
    assert told[1] == "A, B and C go on fetching: B's HW is 1, C's HW is 1"
    assert told[2].startswith("A write")
    assert told[4] == "B runs: B learns that it leads"
    assert told[5] == "A and C run: A learns that B leads; C learns that B leads"


def test_no_kind_of_move_is_without_words() -> None:
    spoken = {row_of(move)[0] for _, move, _ in SENTENCES}
    spoken |= {row_of(move)[0] for _, _, move, _ in ELSEWHERE}
    assert spoken | {Move.RUN, Move.TELL, Move.SAVE} == set(Move)


def test_a_late_answer_is_decoded_whole() -> None:
    play = Play.of("2.8.2").do("send A, send A, ask B")
    entries = (LogEntry(record="m1", epoch=0), LogEntry(record="m2", epoch=0))
    expected = FetchAnswer(leader=0, kind="records", offset=0, epoch=None, entries=entries, hw=0)
    assert play.now.replicas[1].answer == expected
    play = Play.of("2.8.2").do("send A, send A, fetch B, move C, learn C, learn B, ask B")
    expected = FetchAnswer(leader=2, kind="diverging", offset=0, epoch=0, entries=(), hw=0)
    assert play.now.replicas[1].answer == expected


def test_a_state_is_decoded_whole() -> None:
    play = Play.of("2.8.2", acks="1").do("send A, fetch B, fetch B, pause C, shrink A C, confirm A")
    play.do("send A, checkpoint A, move B, learn B, kill A")
    now = play.now
    assert (now.leader, now.epoch, now.isr, now.live) == (1, 1, (0, 1), (0, 1, 2))
    assert (now.sent, now.acked, now.read) == (2, ("m1", "m2"), ("m1",))
    a, b, c = now.replicas
    assert [entry.record for entry in a.log] == ["m1", "m2"]
    assert (a.process, a.leo, a.hw, a.hw_on_disk, a.follows, a.epoch) == ("dead", 2, 1, 1, -1, -1)
    assert (b.process, b.log, b.follows, b.epoch, b.isr) == ("up", a.log[:1], 1, 1, (0, 1))
    assert (c.process, c.fetcher, c.follows, c.epoch, c.isr) == ("paused", "fetching", 0, 0, ())
