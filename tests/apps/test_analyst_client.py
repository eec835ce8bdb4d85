"""The client of a service: what it asks, what it gives back, and that nothing is paid for twice whatever breaks."""

import secrets

import numpy as np
import pandas as pd
import pytest
from host_process import Host, write_table
from serving import TABLE, admit, spent, worker
from wire import Line, listening_server, scripted

import qrelease as qr
from qrelease.apps.analyst_client import ServedRequest
from qrelease.data.attribute import Attribute
from qrelease.data.domain import Domain
from qrelease.data.table import Table
from qrelease.privacy import ApproxDP
from qrelease.privacy.analysts import Analysts
from qrelease.privacy.ledger import Ledger

WOMEN = "sex = 'F'"


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """The port of a service, and its ledger."""
    path = tmp_path_factory.mktemp("served") / "people.ledger"
    with worker(path) as app, listening_server(app) as port:
        yield port, path


@pytest.fixture
def people(served):
    """A client, of an analyst for each test."""
    port, path = served
    with qr.connect(f"http://127.0.0.1:{port}", admit(path, f"a{secrets.token_hex(6)}", 0.2)) as client:
        yield client


def test_a_question_is_quoted_asked_and_remembered(people):
    assert people.budget().spent is None
    (quote,) = people.quote(["grade = 0"])
    answer = people.ask("grade = 0")
    assert quote.affordable
    assert quote.cost == answer.cost
    assert answer.query == "grade = 0"
    assert abs(answer.value - np.bincount(TABLE.columns[2])[0]) <= answer.error
    budget = people.budget()
    assert budget.spent == answer.cost
    assert budget.total == qr.PureDP(0.2)
    assert budget.note == ""  # epsilons add up
    assert budget.answers == int(budget.left.epsilon / quote.cost.epsilon)
    (asked,) = people.history()
    assert asked == ServedRequest(1, asked.key, asked.time, ({"where": "grade = 0"},))
    assert people.answered(1) == [answer]
    assert people.ask("grade = 0", key=asked.key) == answer
    assert people.budget() == budget
    assert people.ask("grade = 0", synopsis=False).value == answer.value
    assert people.history()[1].queries == ({"where": "grade = 0", "synopsis": False},)


def test_groups_above_a_threshold_are_quoted_found_and_remembered(people):
    above = qr.AboveThresholds(("grade",), 5000, positives=2)
    quote = people.quote_estimate(above, qr.PureDP(0.125))
    assert (quote.source, quote.cost, quote.affordable) == ("measured", qr.PureDP(0.125), True)
    assert people.budget().spent is None
    found = people.estimate(above, qr.PureDP(0.125), key="mine")
    assert found.estimate.promise == quote.promise
    counts = np.bincount(TABLE.columns[2], minlength=3)
    assert found.estimate.value == tuple(str(i) for i in range(3) if counts[i] >= 5000)[:2]
    assert found.cost == people.budget().spent == qr.PureDP(0.125)
    spelled = "above-thresholds:grade,threshold=5000,positives=2"
    assert people.estimate(spelled, qr.PureDP(0.1)).source == "cached"
    assert people.estimate(above, qr.PureDP(0.125), key="mine") == found
    people.ask(WOMEN)
    assert isinstance(people.history(), list)  # what is printed is the requests
    first, *_, last = people.history()
    assert first == ServedRequest(1, "mine", first.time, (), {"statistic": spelled, "epsilon": 0.125})
    assert last.estimate is None
    assert people.estimated(1) == found
    with pytest.raises(qr.InvalidInput, match=r"estimated\(1\) has it"):
        people.answered(1)
    with pytest.raises(qr.InvalidInput, match=r"answered\(3\) has its answers"):
        people.estimated(3)


@pytest.mark.parametrize("frame", ["pandas", "polars"])
def test_answers_are_frames(people, frame):
    pytest.importorskip(frame)
    listed = people.ask_many([WOMEN, ["sex", "grade"], {"range": {"column": "age", "low": "0", "high": "39"}}])
    found = people.ask_many([WOMEN, ["sex", "grade"]], frame=frame)
    shown = ["query", "value", "low", "high", "source", "takes", "note"]
    assert [*found.columns] == shown
    whole = people.ask_many([WOMEN], frame=frame, details=True)
    assert [*whole.columns] == [*shown, "error", "rank_error", "epsilon", "delta", "rho"]
    assert found["value"].to_list() == [a.value for a in listed[:-1]]
    assert found["low"].to_list() == [a.value - a.error for a in listed[:-1]], "a count's accuracy is in the frame too"
    assert found["high"].to_list() == [a.value + a.error for a in listed[:-1]]
    numbers = people.numbers("mean:age by sex", frame=frame)
    assert [*numbers.columns] == ["sex", *shown]
    assert numbers["sex"].to_list() == ["F", "M"]
    by_age = people.ask_many([["grade", "age"]], frame=frame)
    assert [*by_age.columns[:2]] == ["grade", "age"]
    assert by_age["grade"].to_list() == [0, 1, 2] * 4
    assert by_age["age"].is_null().sum() == 3 if frame == "polars" else by_age["age"].isna().sum() == 3
    assert people.answered(len(people.history()))[0].group == {"grade": 0, "age": "0..19"}
    assert (numbers["low"] <= numbers["value"]).all()
    assert len(numbers) == 2
    (largest,) = people.numbers("mean:age by sex", top=1)
    assert largest.value == max(numbers["value"])
    table = people.synthetic(50, frame=frame)
    assert [*table.columns] == list(TABLE.domain.names)
    assert len(table) == 50
    assert people.synthetic(50)["grade"].dtype == np.int64
    dummy = people.dummy(50, frame=frame)
    assert [*dummy.columns] == [*table.columns]
    assert [*dummy.dtypes] == [*table.dtypes]


def test_what_answers_took_adds_up_to_what_was_spent(tmp_path):
    """Also where they are priced in rho, and the budget is in epsilon."""
    cap = ApproxDP(0.5, 1e-6)
    with worker(tmp_path / "l", cap=cap) as app, listening_server(app) as port:
        with Ledger.open(tmp_path / "l") as ledger:
            token = Analysts(ledger).add("ada", cap)
        with qr.connect(f"http://localhost:{port}", token) as client:
            asked = [WOMEN, ["sex", "grade"], {"numbers": "mean:age by sex"}, WOMEN]
            frame = client.ask_many(asked, frame="pandas", details=True)
            assert frame["rho"].notna().any()
            assert frame["epsilon"].isna().all()
            budget = client.budget()
            assert frame["takes"].sum() == pytest.approx(budget.spent.epsilon)
            assert budget.spent.epsilon + budget.left.epsilon < 0.999 * cap.epsilon  # as a stranger adds them up
            assert budget.note.startswith("spent and left add up to less than the total: charges are added up in rho")
            assert client.ask(WOMEN).takes is None


def test_missing_values_are_missing(tmp_path):
    columns = (
        Attribute("town", "category", categories=("A", "B"), missing=("?",)),
        Attribute("pay", "number", edges=(0.0, 1.5, 3.0), missing=("",)),
        Attribute("size", "number", edges=(0, 50, 100), integer=True, missing=("NA",)),
    )
    rng = np.random.default_rng(0)
    table = Table(Domain(columns), tuple(rng.integers(0, 3, 9_000).astype(np.uint8) for _ in columns))
    with worker(tmp_path / "l", table=table) as app, listening_server(app) as port:
        client = qr.connect(f"http://localhost:{port}", admit(tmp_path / "l", "ada"))
        client.ask("town is missing")
        frame = client.synthetic(3000, frame="pandas")
        assert {c.name: c.missing for c in client.schema().columns} == {"town": "?", "pay": "", "size": "NA"}
        client.close()
    assert frame.isna().any().all()
    assert set(frame["town"].dropna()) == {"A", "B"}
    assert pd.api.types.is_float_dtype(frame["pay"])
    assert pd.api.types.is_integer_dtype(frame["size"])
    assert frame["size"].max() < 100


@pytest.mark.parametrize(
    ("ask", "error", "told"),
    [
        (lambda c: c.ask("salary = 3"), qr.InvalidInput, "salary"),
        (lambda c: c.ask("sex = 'F' and age in 0..19", most=1e-9), qr.BudgetExceeded, "ask for a new quote"),
        (lambda c: c.quote("grade = 0"), qr.InvalidInput, r"a list of questions is wanted, \['grade = 0'\]"),
        (lambda c: c.ask_many({"numbers": "mean:age"}), qr.InvalidInput, "a list of questions is wanted"),
        (lambda c: c.ask(["sex", "grade"]), qr.InvalidInput, "ask_many"),
        (lambda c: c.ask("mean:age by sex"), qr.InvalidInput, r"numbers\('mean:age by sex'\) asks for numbers"),
        (lambda c: c.quote(["sex = 'F'", "count by sex"]), qr.InvalidInput, "{'numbers': 'count by sex'}"),
        (lambda c: c.ask_many([]), qr.InvalidInput, "length >= 1 - at `\\$.queries`"),
        (lambda c: c.ask(WOMEN, key="two words"), qr.InvalidInput, "visible ASCII"),
        (lambda c: c.ask(WOMEN, key="x\r\nHost: y"), qr.InvalidInput, "visible ASCII"),
        (lambda c: c.synthetic(0), qr.InvalidInput, "rows"),
        (lambda c: c.synthetic(5, frame="excel"), qr.InvalidInput, "frame must be one of"),
        (lambda c: c.estimate("mean:salary", qr.PureDP(0.1)), qr.InvalidInput, "salary"),
        (lambda c: c.estimate("mean:grade", qr.PureDP(0.1), most=0.05), qr.BudgetExceeded, "ask for a new quote"),
        (lambda c: c.estimate("mean:grade", 0.1), qr.InvalidInput, "cost"),
        (lambda c: c.estimate(qr.MostCommon(("a,b",)), qr.PureDP(0.1)), qr.InvalidInput, "no text names"),
        (lambda c: c.quote_estimate("noisy-descent:grade", qr.PureDP(0.1)), qr.InvalidInput, "above-thresholds"),
        (lambda c: c.estimated(99), qr.InvalidInput, "fewer requests"),
        (lambda c: c.answered(99), qr.InvalidInput, "fewer requests"),
    ],
)
def test_what_is_refused_is_one_line_and_costs_nothing(people, ask, error, told):
    with pytest.raises(error, match=told) as raised:
        ask(people)
    assert "\n" not in str(raised.value)
    assert people.budget().spent is None


def test_a_key_names_one_question(people):
    people.ask(WOMEN, key="mine")
    with pytest.raises(qr.InvalidInput, match="a key of its own"):
        people.ask("grade = 1", key="mine")


def test_a_lost_answer_is_fetched_again_and_paid_once(tmp_path):
    """Its first two answers are written down and never arrive: one request is in the books, and one charge."""
    path = tmp_path / "people.ledger"
    with worker(path) as app, listening_server(app) as port:
        line = Line(port, lose=2)
        client = qr.connect(f"http://127.0.0.1:{line.port}", admit(path, "ada"))
        answer = client.ask(WOMEN)
        assert line.lose == 0
        assert client.budget().requests == 1
        assert spent(path) == answer.cost.epsilon
        line.lose = 1
        with pytest.raises(qr.ServiceError, match="pays nothing twice") as lost:
            qr.connect(f"http://127.0.0.1:{line.port}", admit(path, "bob"), patience=0.01).ask("grade = 1")
        client.close()
        line.close()
    with Ledger.open(path) as ledger:
        charges = len(ledger.history())
    assert lost.value.key
    with worker(path) as app, listening_server(app) as port:  # another process of the service, the same ledger
        client = qr.connect(f"http://127.0.0.1:{port}", admit(path, "cleo"))
        assert client.ask(WOMEN).value == answer.value
        client.close()
    with Ledger.open(path) as ledger:
        assert len(ledger.history()) == charges


@pytest.mark.slow
def test_a_killed_server_is_asked_again_and_paid_once(tmp_path):
    """It is killed after it wrote the answer down and before anybody saw it, and another takes its place."""
    write_table(tmp_path)
    host = Host(tmp_path, "people.ledger")
    host.ready()
    token = admit(tmp_path / "people.ledger", "ada")
    started = []

    def kill():
        host.process.kill()
        host.process.wait()
        host.process.stdout.close()
        started.append(Host(tmp_path, "people.ledger", port=host.port))

    line = Line(host.port, lose=1, lost=kill)
    try:
        with qr.connect(f"http://127.0.0.1:{line.port}", token, patience=120) as client:
            answer = client.ask(WOMEN)
            assert started
            assert client.budget().requests == 1
            assert spent(tmp_path / "people.ledger") == answer.cost.epsilon
    finally:
        line.close()
        for one in started:
            one.stop()


def test_another_form_of_answer_is_an_error_of_one_line():
    answers = [(200, {}, {"answers": [{"value": 1}]}), (200, {}, []), (200, {}, {"columns": [], "extra": 1})]
    with scripted(*answers) as (port, _), qr.connect(f"http://127.0.0.1:{port}", "t") as client:
        for ask in (lambda: client.ask(WOMEN), client.budget, client.schema):
            with pytest.raises(qr.ServiceError, match="another form"):
                ask()
    with (
        scripted((200, {}, {"estimate": {"format": 1}})) as (port, _),
        qr.connect(f"http://127.0.0.1:{port}", "t") as c,
        pytest.raises(qr.ServiceError, match="another form"),
    ):
        c.estimate("mean:grade", qr.PureDP(0.1))
