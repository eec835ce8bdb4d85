"""The façade for notebooks: a release as any other, and two refusals that say why."""

import re
import warnings

import numpy as np
import pandas as pd
import pytest

import qrelease as qr
from qrelease.evaluation.verify import verify
from qrelease.mechanisms.auto import Auto
from qrelease.mechanisms.learning.schema import divided
from qrelease.privacy.resuming import public_part, releases, unfinished
from qrelease.release import writer
from qrelease.release.schema_cost import cost_with_schema

SCHEMA = qr.Domain(
    (
        qr.Attribute("sex", "category", categories=("F", "M")),
        qr.Attribute("age", "number", edges=(0, 30, 60, 90), integer=True),
    )
)

FRAME = pd.DataFrame({"sex": ["F", "M"] * 400, "age": np.arange(800) % 90})


def test_a_fitted_model_has_what_the_terminal_says_of_a_release():
    with qr.Ledger.open(None, qr.PureDP(1.0), dataset="people") as ledger:
        asked = qr.Workload.marginals(SCHEMA, 1)
        apart = qr.Synthesizer(epsilon=0.5, ledger=ledger, schema=SCHEMA, workload=asked)
        assert "notes_" not in repr(apart)
        apart.fit(FRAME, entropy=qr.Entropy.insecure(1))
        assert apart.notes_ == apart.release_.notes
        assert (
            apart.notes_[0] == "not counted together, and so independent of each other in synthetic records: sex; age"
        )
        assert repr(apart).endswith("; to know before its records are used, see notes_ (1))")
        both = qr.Synthesizer(epsilon=0.5, ledger=ledger, schema=SCHEMA).fit(FRAME, entropy=qr.Entropy.insecure(1))
        assert both.notes_ == ()
        assert "notes_" not in repr(both)


@pytest.mark.parametrize("progress", [True, None, False])
def test_a_fit_says_what_it_takes_and_how_far_off_answers_are_where_that_is_wanted(progress, capsys):
    with qr.Ledger.open(None, qr.PureDP(1.0), dataset="people") as ledger:
        model = qr.Synthesizer(epsilon=1.0, ledger=ledger, schema=SCHEMA, progress=progress)
        model.fit(FRAME, entropy=qr.Entropy.insecure(1))
    assert model.get_params()["progress"] is progress
    name, chosen = str(model.release_).splitlines()
    assert name == repr(model.release_)
    assert re.fullmatch(r"chosen \w+: answers off by about [\d.]+ records \(root mean square\); .*", chosen)
    said = capsys.readouterr().err
    if progress:
        lines = [line for line in said.splitlines() if "compiling" not in line]
        assert lines[0].startswith("qrelease: auto would take ")
        assert lines[-1] == f"qrelease: {chosen}"
    else:
        assert said == ""


def test_a_fit_is_one_charge_and_samples_are_free():
    with qr.Ledger.open(None, qr.PureDP(1.0), dataset="people") as ledger:
        model = qr.Synthesizer(epsilon=0.5, ledger=ledger, schema=SCHEMA)
        assert model.fit(FRAME, entropy=qr.Entropy.insecure(1)) is model
        assert ledger.spent == qr.PureDP(0.5)
        assert model.release_.dataset == "people"
        first = model.sample(50, seed=3)
        pd.testing.assert_frame_equal(first, model.sample(50, seed=3))
        assert list(first.columns) == ["sex", "age"]
        assert first["age"].between(0, 89).all()
        assert 700 < len(model.sample()) < 900
        assert ledger.spent == qr.PureDP(0.5)
        model.fit(FRAME)
        with pytest.raises(qr.BudgetExceeded):
            model.fit(FRAME)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"schema": SCHEMA}, "needs a ledger: what all releases about the same people cost adds up"),
        ({"ledger": "people.ledger"}, "a schema is needed: categories, bins and bounds that are read off the data"),
    ],
)
def test_without_a_schema_or_a_ledger_it_says_why(given, why):
    with pytest.raises(qr.InvalidInput, match=why):
        qr.Synthesizer(epsilon=1.0, **given).fit(FRAME)


@pytest.mark.parametrize("delta", [None, 1e-9])
@pytest.mark.parametrize("persons", [False, True])
@pytest.mark.parametrize("named", [None, "new.ledger"])
def test_the_ledger_that_is_suggested_is_one_that_fits(named, persons, delta, in_folder):
    table = FRAME.assign(who=np.arange(800) // 2)
    text = "".join(f'[[attribute]]\nname = "{n}"\nkind = "coded"\ncodes = 90\n' for n in ("age", "who"))
    person = '[person]\ncolumn = "who"\nat_most = 2\n' if persons else ""
    (in_folder / "people.toml").write_text(person + text.replace('name = "who"', 'name = "sex"'))
    table["sex"] = table["sex"].eq("F").astype(int)
    model = qr.Synthesizer(epsilon=0.5, delta=delta, schema=in_folder / "people.toml", ledger=named)
    error, why = (qr.InvalidInput, "needs a ledger") if named is None else (qr.LedgerError, "there is no ledger new")
    with pytest.raises(error, match=why) as refused:
        model.fit(table)
    code = re.search(r"ledger=(qr\.Ledger\.open\(.*\)), with a larger", str(refused.value))[1]
    with eval(code, {"qr": qr}) as ledger:
        model.set_params(ledger=ledger).fit(table, entropy=qr.Entropy.insecure(1))
        assert ledger.remaining is None
    assert (in_folder / (named or "people.ledger")).exists()


def test_an_unused_ledger_of_another_unit_is_told_to_be_of_no_use(tmp_path):
    with qr.Ledger.open(tmp_path / "l", qr.PureDP(1.0)) as ledger:
        with pytest.raises(qr.LedgerError, match=r"nothing was charged to this one, so its file may be deleted$"):
            ledger.check_unit("who")
        ledger.charge(qr.PureDP(0.5), "a")
        with pytest.raises(qr.LedgerError, match=r"person='who'\) in Python$"):
            ledger.check_unit("who")


def test_what_is_wrong_costs_nothing(tmp_path):
    with qr.Ledger.open(None, qr.PureDP(1.0)) as ledger:
        for wrong in (
            {"epsilon": -1},
            {"workload": 0},
            {"workload": True},
            {"mechanism": qr.Gaussian()},
            {"mechanism": qr.MaxEnt},
        ):
            given = {"epsilon": 0.5, "ledger": ledger, "schema": SCHEMA} | wrong
            with pytest.raises(qr.InvalidInput):
                qr.Synthesizer(**given).fit(FRAME)
        assert ledger.spent is None
    with pytest.raises(qr.LedgerError):
        qr.Synthesizer(epsilon=1.0, ledger=tmp_path / "none.ledger", schema=SCHEMA).fit(FRAME)
    with pytest.raises(qr.InvalidInput, match="call fit first"):
        qr.Synthesizer(epsilon=1.0).sample(3)


def test_a_ledger_and_records_may_be_named_by_their_files(tmp_path):
    FRAME.to_csv(tmp_path / "people.csv", index=False)
    qr.Ledger.open(tmp_path / "people.ledger", qr.PureDP(1.0)).close()
    model = qr.Synthesizer(epsilon=1.0, ledger=tmp_path / "people.ledger", schema=SCHEMA, workload=9)
    assert len(model.fit(tmp_path / "people.csv").sample(10)) == 10
    with qr.Ledger.open(tmp_path / "people.ledger") as ledger:
        assert ledger.remaining is None


def test_a_reviewed_draft_is_a_schema_without_a_file():
    draft = qr.draft(FRAME)
    with qr.Ledger.open(None, qr.PureDP(1.0)) as ledger:
        with pytest.raises(qr.InvalidInput, match=r"^the text of the schema: not reviewed: sex, age; "):
            qr.Synthesizer(epsilon=1.0, ledger=ledger, schema=draft).fit(FRAME)
        assert ledger.spent is None
        model = qr.Synthesizer(epsilon=1.0, ledger=ledger, schema=draft.replace("reviewed = false", "reviewed = true"))
        assert list(model.fit(FRAME, entropy=qr.Entropy.insecure(1)).sample(5).columns) == ["sex", "age"]
        unknown = draft.replace("reviewed = false", "reviewed = true").replace('"age"', '"years"')
        with pytest.raises(qr.InvalidInput, match="years") as refused:
            qr.Table.from_frame(FRAME, unknown)
        assert "\n" not in str(refused.value)


def test_what_the_ledger_does_not_cover_is_refused_before_the_file_is_read(tmp_path):
    with qr.Ledger.open(None, qr.PureDP(1.0)) as ledger:
        model = qr.Synthesizer(epsilon=2.0, ledger=ledger, schema=SCHEMA)
        with pytest.raises(qr.BudgetExceeded):
            model.fit(tmp_path / "none.csv")
        with pytest.raises(qr.InvalidInput, match=r"none\.csv"):
            model.set_params(epsilon=1.0).fit(tmp_path / "none.csv")


def test_a_fit_is_charged_in_rho():
    with qr.Ledger.open(None, qr.ZCDP(0.5)) as ledger:
        model = qr.Synthesizer(rho=0.1, ledger=ledger, schema=SCHEMA).fit(FRAME, entropy=qr.Entropy.insecure(1))
        assert model.release_.cost == ledger.spent == qr.ZCDP(0.1)
        assert qr.Synthesizer(**model.get_params()).rho == 0.1
        assert repr(qr.Synthesizer(rho=0.1)) == "Synthesizer(rho=0.1)"


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({}, "takes either epsilon or rho, got epsilon=None and rho=None"),
        ({"epsilon": 1.0, "rho": 0.1}, r"takes either epsilon or rho, got epsilon=1.0 and rho=0.1"),
        ({"rho": 0.1, "delta": 1e-9}, "rho cannot be used with delta"),
        ({"delta": 1e-9}, "takes either epsilon or rho"),
        ({"rho": 0}, "rho"),
        ({"rho": "much"}, "rho"),
    ],
)
def test_a_cost_is_one_of_epsilon_and_rho(given, why):
    with qr.Ledger.open(None, qr.ZCDP(0.5)) as ledger:
        with pytest.raises(qr.InvalidInput, match=why):
            qr.Synthesizer(ledger=ledger, schema=SCHEMA, **given).fit(FRAME)
        assert ledger.spent is None


@pytest.mark.parametrize("given", [{"epsilon": -1}, {"epsilon": 1.0, "delta": 2.0}, {"rho": "much"}])
def test_a_cost_that_is_none_is_refused_when_the_synthesizer_is_made(given):
    with pytest.raises(qr.InvalidInput):
        qr.Synthesizer(**given)


def test_frames_come_back_as_they_went_in():
    polars = pytest.importorskip("polars")
    with qr.Ledger.open(None, qr.PureDP(1.0)) as ledger:
        model = qr.Synthesizer(epsilon=1.0, ledger=ledger, schema=SCHEMA).fit(polars.from_pandas(FRAME))
    assert isinstance(model.sample(5), polars.DataFrame)
    assert isinstance(model.sample(5, frame="pandas"), pd.DataFrame)


def test_it_is_cloned_by_its_parameters_as_scikit_learn_does():
    model = qr.Synthesizer(epsilon=1.0, schema=SCHEMA)
    again = qr.Synthesizer(**model.get_params()).set_params(epsilon=2.0)
    assert (again.epsilon, again.schema) == (2.0, SCHEMA)
    with pytest.raises(qr.InvalidInput, match="no parameter"):
        model.set_params(records=3)


def test_numbers_are_measured_beside_the_counts():
    fine = qr.Domain((SCHEMA["sex"], qr.Attribute("age", "number", within=(0, 89), step=1, edges=(0, 30, 60, 90))))
    frame = pd.DataFrame({"sex": ["F", "M"] * 4000, "age": [20, 70] * 4000})
    given = {"epsilon": 1.0, "schema": fine}
    asked = qr.Workload.marginals(fine, 1) + qr.Workload.means(fine, "age", by="sex")
    for more in ({"numbers": "mean:age by sex"}, {"numbers": ["mean:age by sex"], "workload": 1}, {"workload": asked}):
        with qr.Ledger.open(None, qr.PureDP(1.0)) as ledger:
            model = qr.Synthesizer(ledger=ledger, **given, **more).fit(frame, entropy=qr.Entropy.insecure(1))
            assert ledger.spent == qr.PureDP(1.0)
        means = model.release_.mean("age", by="sex")
        assert (means.high_95 - means.low_95).max() < 5  # bins alone leave 29 years
        assert means.value.to_list() == pytest.approx([20, 70], abs=2)
        assert len(model.sample(7)) == 7
    with qr.Ledger.open(None, qr.PureDP(1.0)) as ledger:
        with pytest.raises(qr.InvalidInput, match="wage"):
            qr.Synthesizer(ledger=ledger, **given, numbers="mean:wage by sex").fit(frame)
        with pytest.raises(qr.InvalidInput, match="records answers counts alone"):
            qr.Synthesizer(ledger=ledger, **given, numbers="mean:age", mechanism=qr.FittedRecords()).fit(frame)
        assert ledger.spent is None


def test_a_folder_is_paid_for_once(tmp_path):
    folder, place = tmp_path / "january", tmp_path / "people.ledger"
    qr.Ledger.open(place, qr.PureDP(1.0)).close()
    given = {"epsilon": 0.5, "schema": SCHEMA, "ledger": place, "folder": folder, "mechanism": qr.MaxEnt()}
    first = qr.Synthesizer(**given).fit(FRAME)
    with pytest.warns(UserWarning, match="january has this release already, of 20.* nothing was charged"):
        again = qr.Synthesizer(**given).fit(FRAME.head(100))
    pd.testing.assert_frame_equal(first.sample(20, seed=1), again.sample(20, seed=1))
    for other in (
        {"epsilon": 0.25},
        {"workload": 1},
        {"mechanism": qr.MWEM()},
        {"mechanism": qr.MaxEnt(objective="largest")},
        {"schema": qr.Domain(SCHEMA.attributes[:1])},
    ):
        with pytest.raises(qr.InvalidInput, match=r"has another release, .* it differs in \w+; name another folder"):
            qr.Synthesizer(**given | other).fit(FRAME)
    with pytest.raises(qr.InvalidInput, match="source of noise"):
        qr.Synthesizer(**given).fit(FRAME, entropy=qr.Entropy.insecure(1))
    with (
        qr.Ledger.open(None, qr.PureDP(1.0), dataset="others") as others,
        pytest.raises(qr.InvalidInput, match="dataset"),
    ):
        qr.Synthesizer(**given | {"ledger": others}).fit(FRAME)
    with (
        qr.Ledger.open(None, qr.PureDP(1.0), dataset="people", neighbours="replace-one") as others,
        pytest.raises(qr.InvalidInput, match="it differs in neighbours; name"),
    ):
        qr.Synthesizer(**given | {"ledger": others}).fit(FRAME)
    with qr.Ledger.open(place) as ledger:
        assert ledger.spent == qr.PureDP(0.5)
    with pytest.warns(qr.RowsChangedWarning):
        qr.Synthesizer(**given | {"folder": tmp_path / "february"}).fit(FRAME.head(700))
    with qr.Ledger.open(place) as ledger:
        assert ledger.spent == qr.PureDP(1.0)
        assert all(entry.answered for entry in ledger.history() if entry.kind == "charge")


def test_a_cell_that_is_run_twice_is_told_before_it_pays_twice(tmp_path):
    with qr.Ledger.open(tmp_path / "people.ledger", qr.PureDP(1.0)) as ledger, warnings.catch_warnings():
        warnings.simplefilter("error")
        model = qr.Synthesizer(epsilon=0.25, ledger=ledger, schema=SCHEMA, mechanism=qr.MaxEnt()).fit(FRAME)
        with pytest.raises(UserWarning, match=r"these arguments already: epsilon=0\.25 is charged once more"):
            model.fit(FRAME)
        with pytest.raises(qr.RowsChangedWarning):
            model.fit(FRAME.head(500))
        assert ledger.spent == qr.PureDP(0.25)
        model.set_params(epsilon=0.5).fit(FRAME)
        assert ledger.spent == qr.PureDP(0.75)


def test_a_release_that_did_not_reach_its_folder_goes_on_for_free(tmp_path):
    place = tmp_path / "people.ledger"
    qr.Ledger.open(place, qr.PureDP(0.5)).close()
    given = {"epsilon": 0.5, "schema": SCHEMA, "ledger": place, "mechanism": qr.MaxEnt()}
    with pytest.raises(qr.InvalidInput, match="cannot be written"):
        qr.Synthesizer(**given, folder=tmp_path / "none" / "january").fit(FRAME)
    table, workload = qr.Table.from_frame(FRAME, SCHEMA), qr.Workload.marginals(SCHEMA, 2)
    with qr.Ledger.open(place) as ledger:
        assert ledger.spent is None
        qr.Curator(table, ledger).pay(qr.MaxEnt(), workload, qr.PureDP(0.5)).release()  # and the kernel dies
        assert ledger.remaining is None
    model = qr.Synthesizer(**given, folder=tmp_path / "january").fit(FRAME)
    assert model.release_.id == qr.load(tmp_path / "january").id
    with pytest.raises(qr.BudgetExceeded):
        qr.Synthesizer(**given, folder=tmp_path / "february").fit(FRAME)


@pytest.mark.parametrize("seed", [None, 1])
def test_a_release_is_taken_with_the_ledger_that_paid_for_it_alone(tmp_path, seed):
    """Two ledgers in memory have one name."""
    entropy = None if seed is None else qr.Entropy.insecure(seed)
    given = {"epsilon": 0.5, "schema": SCHEMA, "folder": tmp_path / "people", "mechanism": qr.MaxEnt()}
    with qr.Ledger.open(None, qr.PureDP(1.0)) as ledger, qr.Ledger.open(None, qr.PureDP(1.0)) as other:
        qr.Synthesizer(**given, ledger=ledger).fit(FRAME, entropy=entropy)
        with pytest.warns(UserWarning, match="has this release already"):
            qr.Synthesizer(**given, ledger=ledger).fit(FRAME, entropy=entropy)
        with pytest.raises(qr.InvalidInput, match="has a release that was not paid from Ledger"):
            qr.Synthesizer(**given, ledger=other).fit(FRAME, entropy=entropy)
        assert (ledger.spent, other.spent) == (qr.PureDP(0.5), None)


OPEN = """
[[attribute]]
name = "town"
kind = "category"
categories = { learn = true, at_most = 20 }

[[attribute]]
name = "hours"
kind = "number"
within = [0, 99]
step = 1
bins = { learn = 8 }
"""
WORK = pd.DataFrame({"town": ["Ulm", "Bonn"] * 3000, "hours": [40, 12, 40, 30] * 1500})


@pytest.mark.parametrize("more", [{}, {"numbers": "mean:hours by town"}])
def test_what_the_schema_leaves_open_is_learned_in_the_cost(more):
    cost = qr.ApproxDP(1.0, 1e-6)
    with qr.Ledger.open(None, cost) as ledger:
        model = qr.Synthesizer(epsilon=1.0, delta=1e-6, ledger=ledger, schema=OPEN, **more)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model.fit(WORK, entropy=qr.Entropy.insecure(2))
        assert ledger.spent.epsilon == pytest.approx(1)
    assert set(model.release_.domain["town"].categories) == {"Ulm", "Bonn", "other"}
    assert set(model.sample(500, seed=0)["town"]) >= {"Ulm", "Bonn"}
    whole = cost_with_schema(model.release_)
    assert (whole.epsilon, whole.delta) == pytest.approx((1, 1e-6))
    assert bool(model.release_.learned) is bool(more)
    assert "of town, hours were learned from the same records" in model.release_.promise
    (said,) = [note for note in model.notes_ if "none of the learned categories" in note]
    assert re.match(r"town: about [\d,]+ records( \(between [\d,]+ and [\d,]+, 19 times out of 20\))? have none", said)
    assert said.endswith("and are counted in 'other' (town = 'other')")
    with pytest.raises(qr.InvalidInput, match=r"^[^?]*: such values are counted in 'other' \(town = 'other'\)$"):
        model.release_.answer("town = 'Ulm2'")
    if more:
        assert f"for {model.release_.learned[0].cost:.6g}, and that is counted" in model.release_.promise
        assert re.search(r"beside the epsilon=0\.\d{1,6}, delta=[\d.e-]+ of the release", model.release_.promise)
        assert model.release_.mean("hours", by="town").value.to_list()[:2] == pytest.approx([21, 40], abs=3)


def test_what_cannot_be_learned_costs_nothing():
    cost = qr.ApproxDP(1.0, 1e-6)
    with qr.Ledger.open(None, cost) as ledger:
        for wrong, why in (
            ({"delta": None}, "delta"),
            ({"workload": qr.Workload.marginals(SCHEMA, 1)}, "town, hours: to be learned, so there are no queries"),
            ({"numbers": "mean:wage"}, "wage"),
            ({"numbers": "mean:hours", "mechanism": qr.MaxEnt()}, "maxent answers counts alone"),
            ({"mechanism": qr.MaxEnt}, "an object such as Auto"),
            ({"workload": 0}, "workload must be a number"),
        ):
            with pytest.raises(qr.InvalidInput, match=why):
                qr.Synthesizer(**{"epsilon": 1.0, "delta": 1e-6, "ledger": ledger, "schema": OPEN} | wrong).fit(WORK)
        with pytest.raises(qr.BudgetExceeded):
            qr.Synthesizer(epsilon=1.5, delta=1e-6, ledger=ledger, schema=OPEN).fit(WORK)
        assert ledger.spent is None


def test_the_promise_is_of_the_learned_bins_too():
    """A tenth of ε learns the bins, and nine tenths release: e^1, not e^0.9 = 2.46."""
    schema = qr.Domain((qr.Attribute("hours", "number", within=(0, 99), step=1, learn=8),))
    with qr.Ledger.open(None, qr.PureDP(1.0)) as ledger:
        model = qr.Synthesizer(epsilon=1.0, ledger=ledger, schema=schema, workload=1)
        release = model.fit(WORK[["hours"]], entropy=qr.Entropy.insecure(2)).release_
        assert ledger.spent.epsilon == pytest.approx(1)
    assert release.cost.epsilon == pytest.approx(0.9)
    assert "within a factor of 2.72," in release.promise


@pytest.mark.parametrize("more", [{}, {"numbers": "mean:hours by town"}])
def test_what_was_learned_is_in_the_folder_too(tmp_path, more):
    qr.Ledger.open(tmp_path / "work.ledger", qr.ApproxDP(1.0, 1e-6)).close()
    given = {"epsilon": 1.0, "delta": 1e-6, "schema": OPEN, "ledger": tmp_path / "work.ledger", **more}
    first = qr.Synthesizer(**given, folder=tmp_path / "work").fit(WORK)
    with pytest.warns(UserWarning, match="has this release already"):
        again = qr.Synthesizer(**given, folder=tmp_path / "work").fit(WORK)
    assert again.release_.id == first.release_.id


def cut_off(table, place, folder, cost, workload):
    """A release that is in its folder, and that the ledger does not know: the process ended in between."""
    with qr.Ledger.open(place) as ledger:
        release = qr.Curator(table, ledger).pay(qr.MaxEnt(), workload, cost).release()
    with writer.new_folder(folder) as part:
        writer.save(release, part)
    return release


def test_a_release_that_is_in_its_folder_is_finished_from_there(tmp_path):
    """Else next month's would be this one again, under another name."""
    place = tmp_path / "people.ledger"
    qr.Ledger.open(place, qr.PureDP(1.0)).close()
    given = {"epsilon": 0.5, "schema": SCHEMA, "ledger": place, "mechanism": qr.MaxEnt()}
    table, workload = qr.Table.from_frame(FRAME, SCHEMA), qr.Workload.marginals(SCHEMA, 2)
    first = cut_off(table, place, tmp_path / "january", qr.PureDP(0.5), workload)
    with pytest.warns(UserWarning, match="january has this release already"):
        taken = qr.Synthesizer(**given, folder=tmp_path / "january").fit(FRAME.head(700))  # as they are by now
    assert taken.release_.id == first.id
    with qr.Ledger.open(place) as ledger:
        assert ledger.spent == qr.PureDP(0.5)
        held = public_part(ledger)
    assert {check.name: check.holds for check in verify(tmp_path / "january", ledger=held).checks}["ledger"]
    with pytest.warns(UserWarning, match="charged once more"):
        second = qr.Synthesizer(**given, folder=tmp_path / "february").fit(FRAME.head(700))
    assert second.release_.id != first.id
    with qr.Ledger.open(place) as ledger:
        assert ledger.spent == qr.PureDP(1.0)


def test_a_charge_is_finished_by_no_other_release(tmp_path):
    given = {"epsilon": 0.5, "schema": SCHEMA, "mechanism": qr.MaxEnt()}
    table, workload = qr.Table.from_frame(FRAME, SCHEMA), qr.Workload.marginals(SCHEMA, 2)
    for place in ("one", "two"):  # two ledgers of one name, each with a release that was cut off
        (tmp_path / place).mkdir()
        qr.Ledger.open(tmp_path / place / "people.ledger", qr.PureDP(0.5)).close()
        cut_off(table, tmp_path / place / "people.ledger", tmp_path / place / "out", qr.PureDP(0.5), workload)
    model = qr.Synthesizer(**given, ledger=tmp_path / "one" / "people.ledger", folder=tmp_path / "two" / "out")
    with pytest.raises(qr.InvalidInput, match="has a release that was not paid from"):
        model.fit(FRAME)
    with qr.Ledger.open(tmp_path / "one" / "people.ledger") as ledger:
        assert [unfinished(entry) for entry in ledger.history()] == [False, True]


@pytest.mark.parametrize("more", [{}, {"numbers": "mean:hours by town"}])
def test_with_a_learned_schema_it_is_finished_too(tmp_path, more):
    place = tmp_path / "work.ledger"
    qr.Ledger.open(place, qr.ApproxDP(1.0, 1e-6)).close()
    given = {"epsilon": 1.0, "delta": 1e-6, "schema": OPEN, "ledger": place, "folder": tmp_path / "work", **more}
    model = qr.Synthesizer(**given)
    table, cost = qr.Table.from_frame(WORK, OPEN), qr.ApproxDP(1.0, 1e-6)
    with qr.Ledger.open(place) as ledger:
        curator, auto = qr.Curator(table, ledger), Auto(table=True)
        if more:
            first, left = divided(table.domain, cost)
            learned = curator.learn(first)
        else:
            learned = curator.learn_for(auto, cost)
            left = learned.left.cost
        asked = qr.Workload.marginals(learned.domain, 2)
        asked = asked + qr.Workload.numbers(learned.domain, more["numbers"]) if more else asked
        viewed = qr.Curator(table.viewed(learned.domain), ledger)
        release = viewed.pay(auto, asked, left, changed_rows=True, learned=learned).release()
    with writer.new_folder(tmp_path / "work") as part:
        writer.save(release, part)
    with pytest.warns(UserWarning, match="has this release already"):
        assert model.fit(WORK).release_.id == release.id
    with qr.Ledger.open(place) as ledger:
        assert [made["release"] for made in releases(ledger).values()] == [release.id]
        assert not any(map(unfinished, ledger.history()))
        assert ledger.spent.epsilon == pytest.approx(1)
