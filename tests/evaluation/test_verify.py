"""Releases that are forged by clumsy hands, by careful ones, and by ones that write all hashes anew."""

import json
import os
import re
import shutil
import subprocess
import zipfile
from dataclasses import dataclass

import numpy as np
import pytest

import qrelease as qr
from qrelease.apps.cli import main
from qrelease.data.domain import Domain
from qrelease.data.table import Table
from qrelease.evaluation.verify import verify
from qrelease.privacy.resuming import public_part, releases
from qrelease.queries.families import Residuals
from qrelease.queries.workload import Group, Workload
from qrelease.release import checksums
from tests.pinned import old
from tests.pinned.releases import COSTS, MECHANISMS

DOMAIN = Domain.coded({"sex": 2, "age": 4, "grade": 3})

ROWS = np.random.default_rng(5).integers(0, 12, size=(3, 600))

TABLE = Table(DOMAIN, tuple((row % n).astype(np.uint8) for row, n in zip(ROWS, DOMAIN.shape, strict=True)))

PAIRS = qr.Workload.marginals(DOMAIN, 2)


def saved(folder, mechanism=None, neighbours="add-remove", cost=None, **options):
    """A release with secret noise in `folder`/out, the public part of its ledger, and the release."""
    cost = cost or qr.PureDP(1.0)
    with qr.Ledger.open(None, cost, dataset="people", neighbours=neighbours) as ledger:
        release = qr.Curator(TABLE, ledger).release(mechanism or qr.Laplace(), PAIRS, cost)
        release.save(folder / "out", **options)
        return folder / "out", public_part(ledger), release


def failed(found):
    return {check.name for check in found.checks if check.holds is False}


# --- the nine falsifications --------------------------------------------------------------------------------------


def edit(change):
    """A forgery that changes the manifest by a function of its content."""

    def forge(folder):
        file = folder / "release.json"
        content = json.loads(file.read_text())
        change(content)
        file.write_text(json.dumps(content))

    return forge


def less_noise(content):
    for m in content["measurements"]:
        m["noise"]["scale"] /= 10


def other_measurements(content):
    for m in content["measurements"]:
        m["values"] = [v + 40.0 for v in m["values"]]


def other_neighbours(content):
    content["neighbours"] = "replace-one" if content["neighbours"] == "add-remove" else "add-remove"


def altered_answers(folder):
    lines = (folder / "answers.csv").read_text().splitlines()
    fields = lines[3].split(",")
    fields[-4] = str(float(fields[-4]) + 25)
    lines[3] = ",".join(fields)
    (folder / "answers.csv").write_text("\n".join(lines) + "\n")


def another_count(content):
    """Of the records alone: a fit that has them in marginals too hardly follows it."""
    (counted,) = (m for m in content["measurements"] if not m["columns"])
    counted["values"] = [counted["values"][0] + 2000 * counted["noise"]["scale"]]


FORGERIES = {
    "a noise scale divided by ten": (edit(less_noise), {"noise"}),
    "changed measurements": (edit(other_measurements), {"measurements", "answers"}),
    "another mechanism's name": (edit(lambda c: c.update(mechanism="mwem")), {"mechanism"}),
    "swapped neighbours": (edit(other_neighbours), {"noise"}),
    "another dataset": (edit(lambda c: c.update(dataset="others")), set()),
    "a changed total": (
        edit(lambda c: c["synopsis"].update(total=c["synopsis"]["total"] * 2)),
        {"total", "measurements"},
    ),
    "altered answers": (altered_answers, {"answers"}),
    "deleted answers": (lambda folder: (folder / "answers.csv").unlink(), set()),
    "another synthetic table": (
        lambda folder: (folder / "synthetic.csv").write_text("sex,age,grade\n" + "0,0,0\n" * 600),
        {"synthetic records"},
    ),
}
"""How a release is forged, and what does not hold of it even if all hashes are written anew and nothing is signed."""


def rehash(folder):
    """What a careful forger does: a new id, and new hashes."""
    file = folder / "release.json"
    content = json.loads(file.read_text())
    content["id"] = checksums.release_id(content, (np.array(m["values"]) for m in content["measurements"]))
    file.write_text(json.dumps(content))
    checksums.write_hashes(folder)


def test_a_measured_count_that_no_other_measurement_agrees_with_is_found(tmp_path):
    folder, _, _ = saved(tmp_path, qr.MaxEnt())
    assert verify(folder).holds
    edit(another_count)(folder)
    rehash(folder)
    assert "total" in failed(verify(folder))


@pytest.mark.parametrize("name", FORGERIES)
def test_a_clumsy_forgery_is_refused_by_load_and_found_by_verify(name, tmp_path):
    folder, ledger, _ = saved(tmp_path)
    assert verify(folder, ledger=ledger).holds
    FORGERIES[name][0](folder)
    with pytest.raises(qr.InvalidInput, match="qrelease verify"):
        qr.load(folder)
    assert "files" in failed(verify(folder))
    assert main(["verify", str(folder)]) == 1


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forgery_with_new_hashes_is_found_by_what_contradicts_itself(name, tmp_path):
    forge, contradicted = FORGERIES[name]
    folder, _, _ = saved(tmp_path)
    forge(folder)
    rehash(folder)
    qr.load(folder)  # its hashes are its own
    assert failed(verify(folder)) >= contradicted
    assert bool(failed(verify(folder))) == bool(contradicted)


@pytest.mark.parametrize("name", FORGERIES)
def test_any_forgery_is_found_by_the_signature(name, tmp_path):
    qr_key, public = checksums.new_key(tmp_path / "holder")
    folder, _, _ = saved(tmp_path, sign=qr_key)
    assert verify(folder, key=public).holds
    FORGERIES[name][0](folder)
    rehash(folder)
    assert "signature" in failed(verify(folder, key=public))
    other, stranger = checksums.new_key(tmp_path / "stranger")
    checksums.sign(folder, checksums.private_key(other))
    assert "signature" in failed(verify(folder, key=public))
    assert "signature" not in failed(verify(folder, key=stranger))


IN_THE_ID = ["a noise scale divided by ten", "changed measurements", "another mechanism's name", "swapped neighbours"]


@pytest.mark.parametrize("name", [*IN_THE_ID, "another dataset"])
def test_what_was_drawn_and_said_is_found_by_the_ledger_although_the_release_was_saved_later(name, tmp_path):
    folder, ledger, _ = saved(tmp_path)
    FORGERIES[name][0](folder)
    rehash(folder)
    assert "ledger" in failed(verify(folder, ledger=ledger))


SCHEMA = '{"sex": 2, "age": 4, "grade": 3}'


@pytest.fixture(scope="module")
def released(tmp_path_factory):
    """A folder with a release by the command line, signed, and its ledger."""
    folder = tmp_path_factory.mktemp("released")
    (folder / "schema.json").write_text(SCHEMA)
    lines = ["sex,age,grade", *(",".join(map(str, row)) for row in np.stack(TABLE.columns, axis=1).tolist())]
    (folder / "people.csv").write_text("\n".join(lines) + "\n")
    here = os.getcwd()
    os.chdir(folder)
    try:
        assert main(["key", "holder"]) == 0
        words = "release people.csv --schema schema.json --workload marginals:2 --epsilon 1 --mechanism laplace"
        assert main([*words.split(), "--out", "out", "--sign", "holder.key"]) == 0
    finally:
        os.chdir(here)
    return folder


@pytest.mark.parametrize("name", FORGERIES)
def test_any_forgery_of_what_the_command_wrote_is_found_by_the_ledger(name, released, tmp_path):
    folder = tmp_path / "out"
    shutil.copytree(released / "out", folder)
    with qr.Ledger.open(released / "people.ledger") as ledger:
        public = public_part(ledger)
    assert verify(folder, ledger=public).holds
    FORGERIES[name][0](folder)
    rehash(folder)
    assert "ledger" in failed(verify(folder, ledger=public))


def test_a_private_key_is_for_its_owner_alone_and_no_key_is_charged_nothing(released, tmp_path, capsys):
    assert (released / "holder.key").stat().st_mode & 0o077 == 0
    with qr.Ledger.open(released / "people.ledger") as ledger:
        before = ledger.spent
    words = ["release", str(released / "people.csv"), "--schema", str(released / "schema.json"), "--epsilon", "1"]
    assert main([*words, "--sign", str(released / "holder.pub"), "--out", str(tmp_path / "no")]) == 2
    assert "holds no private Ed25519 key" in capsys.readouterr().err
    with qr.Ledger.open(released / "people.ledger") as ledger:
        assert ledger.spent == before


def test_other_tools_check_the_hashes_and_the_signature(released):
    openssl = "openssl pkeyutl -verify -pubin -inkey ../holder.pub -rawin -in SHA256SUMS -sigfile SHA256SUMS.sig"
    for text in ("sha256sum -c SHA256SUMS", openssl):
        words = text.split()
        if shutil.which(words[0]) is None:
            pytest.skip(f"there is no {words[0]}")
        done = subprocess.run(words, cwd=released / "out", capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


@dataclass(frozen=True)
class Columns:
    """A mechanism of somebody's own; `first` measures all records in a draw of its own."""

    first: bool = False
    name = "columns"

    def check(self, workload, cost, neighbours):
        qr.check_fitted(workload)

    def release(self, private, workload, cost):
        total, cost = qr.split(cost, [0.5, 0.5]) if self.first else (None, cost)
        first = private.measure(Workload(workload.domain, (Group((), Residuals(())),)), total) if self.first else []
        measured = private.measure(qr.Workload.marginals(workload.domain, 1), cost)
        return qr.MechanismResult(qr.fitted(workload, measured, private.public_records), (*first, *measured))


# --- what holds of every release ----------------------------------------------------------------------------------


@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
@pytest.mark.parametrize("mechanism", [qr.Laplace(), qr.MWEM(rounds=3), qr.MaxEnt()], ids=lambda m: m.name)
def test_swapped_neighbours_and_scales_contradict_the_cost(mechanism, neighbours, tmp_path):
    folder, _, _ = saved(tmp_path, mechanism, neighbours)
    assert not failed(verify(folder))
    for forge in (edit(other_neighbours), edit(less_noise)):
        copy = tmp_path / forge.__qualname__ / str(id(forge))
        shutil.copytree(folder, copy)
        forge(copy)
        rehash(copy)
        assert "noise" in failed(verify(copy))


def test_too_much_noise_contradicts_the_cost_too(tmp_path):
    folder, _, _ = saved(tmp_path)
    edit(lambda c: [m["noise"].update(scale=m["noise"]["scale"] * 1.3) for m in c["measurements"]])(folder)
    rehash(folder)
    assert failed(verify(folder)) == {"noise", "answers"}  # whose error bars are others


def test_a_cost_is_told_without_what_rounding_left(tmp_path):
    cost = qr.PureDP(0.8999999999999999)
    folder, _, _ = saved(tmp_path, cost=cost)
    (told,) = [check.found for check in verify(folder).checks if check.name == "cost"]
    assert told == "1 part comes to at most epsilon=0.9, of one record more or less (add-remove)"


def test_an_insecure_release_does_not_hold(tmp_path):
    with qr.Ledger.open(None, qr.PureDP(1.0)) as ledger:
        release = qr.Curator(TABLE, ledger, qr.Entropy.insecure(1)).release(qr.Laplace(), PAIRS, qr.PureDP(1.0))
        assert not releases(ledger)  # it is nothing to keep
    assert release.date is None
    release.save(tmp_path / "out")
    assert failed(verify(tmp_path / "out")) == {"noise source"}
    edit(lambda c: c.update(insecure=None, insecure_seed=None))(tmp_path / "out")
    rehash(tmp_path / "out")
    assert {"noise source", "answers"} <= failed(verify(tmp_path / "out"))  # the tables are still marked


def test_a_release_keeps_its_id_when_it_is_loaded_and_saved_again(tmp_path):
    folder, ledger, release = saved(tmp_path, qr.MaxEnt())
    loaded = qr.load(folder)
    assert loaded.id == release.id == ledger["entries"][1]["release"]["release"]
    assert loaded.date == release.date
    loaded.save(tmp_path / "again", rows=50)
    assert qr.load(tmp_path / "again").id == release.id
    assert verify(tmp_path / "again", ledger=ledger).holds


def test_parquet_and_apart_and_left_out_answers_hold(tmp_path, monkeypatch):
    pytest.importorskip("pyarrow")
    from qrelease.release import writer

    monkeypatch.setattr(writer, "LISTED_ANSWERS", 10)
    folder, _, release = saved(tmp_path, format="parquet")
    assert not failed(verify(folder))
    release.save(tmp_path / "none", answers=False)
    found = {c.name: c.holds for c in verify(tmp_path / "none").checks}
    assert found["answers"] is None
    assert not failed(verify(tmp_path / "none"))
    release.save(tmp_path / "weighted", weighted=True)
    assert not failed(verify(tmp_path / "weighted"))


@pytest.mark.parametrize("content", [b"sex,age,\xff\n0,0,0\n", b"0" * 200_000, None])
@pytest.mark.parametrize(
    ("table", "check"), [("answers", "answers"), ("numbers", "numbers"), ("synthetic", "synthetic records")]
)
def test_tables_that_cannot_be_read_do_not_hold_and_end_in_no_traceback(table, check, content, tmp_path):
    folder, _, _ = saved(tmp_path, qr.NumberSums(["mean:age by sex"]), cost=qr.ZCDP(0.3))
    file = folder / f"{table}.csv"
    file.unlink()
    if content is None:
        file.mkdir()
    else:
        file.write_bytes(content)
    assert "files" in failed(verify(folder))
    checksums.write_hashes(folder)
    found = failed(verify(folder))
    assert content is None or check in found


def test_parquet_that_cannot_be_read_here_is_no_forgery(tmp_path, not_installed):
    pytest.importorskip("pyarrow")
    folder, _, _ = saved(tmp_path, format="parquet")
    (folder / "answers.parquet").write_bytes(b"PAR1")
    checksums.write_hashes(folder)
    assert "answers" in failed(verify(folder))
    not_installed("pyarrow")
    with pytest.raises(qr.InvalidInput, match="pip install pyarrow"):
        verify(folder)


def test_a_manifest_by_itself_has_to_have_its_id(tmp_path):
    folder, _, _ = saved(tmp_path)
    alone = tmp_path / "alone.json"
    shutil.copy(folder / "release.json", alone)
    qr.load(alone)
    alone.write_text(alone.read_text().replace('"dataset": "people"', '"dataset": "others"'))
    with pytest.raises(qr.InvalidInput, match="id: the manifest is not what it was"):
        qr.load(alone)
    FORGERIES["a changed total"][0](folder)  # which is not in the id
    with pytest.raises(qr.InvalidInput, match=r"release\.json is not what it was"):
        qr.load(folder / "release.json")


@pytest.mark.parametrize("text", ["", "nonsense\n", f"{'0' * 64}  ../up\n"])
def test_hashes_that_are_none_are_one_clear_error(text, tmp_path):
    folder, _, _ = saved(tmp_path)
    (folder / "SHA256SUMS").write_text(text)
    with pytest.raises(qr.InvalidInput, match="SHA256SUMS"):
        qr.load(folder)
    (folder / "SHA256SUMS").unlink()
    with pytest.raises(qr.InvalidInput, match="SHA256SUMS is missing"):
        qr.load(folder)
    assert failed(verify(folder)) == {"files"}


def test_a_file_that_is_named_twice_is_refused(tmp_path):
    """One reader would take the first hash, and another the last."""
    folder, _, _ = saved(tmp_path)
    file = folder / "SHA256SUMS"
    file.write_text(f"{'0' * 64}  answers.csv\n{file.read_text()}")
    with pytest.raises(qr.InvalidInput, match="names a file twice"):
        verify(folder)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="a named pipe")
@pytest.mark.parametrize("name", ["answers.csv", "report.html", "SHA256SUMS.sig", "release.json", "SHA256SUMS"])
def test_a_pipe_in_the_place_of_a_file_is_not_waited_for(name, tmp_path):
    key, public = checksums.new_key(tmp_path / "holder")
    folder, _, _ = saved(tmp_path, sign=key)
    (folder / name).unlink()
    os.mkfifo(folder / name)
    if name in ("release.json", "SHA256SUMS"):
        with pytest.raises(qr.InvalidInput):
            verify(folder, key=public)
    else:
        assert failed(verify(folder, key=public)) == {"signature" if name == "SHA256SUMS.sig" else "files"}


def in_text(old, new):
    """A forgery that changes the text of the manifest."""

    def forge(folder):
        file = folder / "release.json"
        assert old in file.read_text()
        file.write_text(file.read_text().replace(old, new, 1))

    return forge


@pytest.mark.parametrize(
    ("forge", "why"),
    [
        (in_text("{", '{"cost": {"epsilon": 0.01},'), "'cost' is given twice"),
        (in_text('"cost": {', '"cost": {"epsilon": 0.01,'), "'epsilon' is given twice"),
        (edit(lambda c: c.update(date="soon")), "date: ValueError"),
        (in_text("{", '{"more": ' + "[" * 50_000 + "]" * 50_000 + ","), "RecursionError"),
    ],
)
def test_a_manifest_that_readers_may_read_otherwise_is_refused(forge, why, tmp_path):
    """Also where all hashes are written anew."""
    folder, _, _ = saved(tmp_path)
    forge(folder)
    (check,) = [c for c in verify(folder).checks if c.name == "manifest"]
    assert check.holds is False
    assert why in check.found
    checksums.write_hashes(folder)
    with pytest.raises(qr.InvalidInput, match=re.escape(why)):
        qr.load(folder)
    assert failed(verify(folder)) == {"manifest"}
    assert why in str(verify(folder))


def test_a_release_without_the_measurements_that_its_synopsis_is_made_of_is_a_finding(tmp_path, capsys):
    """As a mechanism of one's own could leave them out once."""
    folder, _, _ = saved(tmp_path, qr.MaxEnt(), cost=qr.PureDP(1.0))
    edit(lambda c: c.update(measurements=[], synopsis={**c["synopsis"], "measurements": 3, "public": None}))(folder)
    checksums.write_hashes(folder)
    (check,) = [c for c in verify(folder).checks if c.holds is False]
    assert check.name == "manifest"
    assert "the last 3 do not give the number of records" in check.found
    assert main(["verify", str(folder)]) == 1
    assert "DOES NOT HOLD: manifest" in capsys.readouterr().out


@pytest.mark.parametrize(
    "forge",
    [
        in_text("{", '{"more": 1e400,'),
        edit(lambda c: c.update(more=float("-inf"))),
        edit(lambda c: c["parameters"].update(impossible=float("nan"))),
    ],
)
def test_a_manifest_with_a_number_that_is_none_has_no_id(forge, tmp_path):
    folder, _, _ = saved(tmp_path)
    forge(folder)
    checksums.write_hashes(folder)
    assert "id" in failed(verify(folder))
    with pytest.raises(qr.InvalidInput, match="id: the manifest is not what it was"):
        qr.load(folder)


def test_what_nobody_reads_in_a_manifest_is_told_and_another_unit_contradicts_the_domain(tmp_path):
    folder, _, _ = saved(tmp_path)
    assert all(c.name != "manifest" for c in verify(folder).checks)
    edit(lambda c: c["measurements"][0].update(approved="by the board"))(folder)
    rehash(folder)
    (said,) = [c for c in verify(folder).checks if c.name == "manifest"]
    assert said.holds is None
    assert "'measurements.approved' means nothing" in said.found
    edit(lambda c: c.update(unit={"of": "a person", "at_most": 3}))(folder)
    rehash(folder)
    assert failed(verify(folder)) == {"manifest"}


def test_a_page_that_says_something_else_than_the_manifest_is_told(tmp_path):
    folder, _, _ = saved(tmp_path)
    page = folder / "report.html"

    def found():
        (check,) = [c for c in verify(folder).checks if c.name == "page"]
        return check

    assert found().holds is True
    text = page.read_text(encoding="utf-8")
    assert "<dd>1</dd>" in text
    page.write_text(text.replace("<dd>1</dd>", "<dd>0.01</dd>"), encoding="utf-8")
    checksums.write_hashes(folder)
    assert found().holds is None
    assert "not the one that this version draws" in found().found
    page.write_bytes(b"\xff")
    assert found().holds is False


def test_numbers_under_other_names_are_found(tmp_path):
    folder, _, _ = saved(tmp_path, qr.NumberSums(["mean:age by sex"]), cost=qr.ZCDP(0.3))
    file = folder / "numbers.csv"
    assert verify(folder).holds
    file.write_text(file.read_text().replace("low,high", "high,low"))
    checksums.write_hashes(folder)
    assert failed(verify(folder)) == {"numbers"}


@pytest.mark.parametrize("mechanism", ["laplace", "created"])
def test_a_release_without_an_id_is_named_by_no_entry_of_a_ledger(mechanism, tmp_path):
    """Other entries have none either, as the first, which has the total; so a forger could leave it out."""
    folder, ledger, _ = saved(tmp_path)
    edit(lambda content: (content.pop("id"), content.pop("date"), content.update(mechanism=mechanism)))(folder)
    (folder / "SHA256SUMS").unlink()
    assert "ledger" in failed(verify(folder, ledger=ledger))


LEDGERS = {
    "spends more than is promised": lambda ledger: ledger["total"].update(epsilon=0.5),
    "charges more than was spent": lambda ledger: ledger["spent"].update(epsilon=0.5),
    "says that nothing was spent": lambda ledger: ledger.update(spent=None),
    "says that zero was spent": lambda ledger: ledger["spent"].update(dict.fromkeys(ledger["spent"], 0.0)),
    "has another charge": lambda ledger: ledger["entries"].append(
        {**ledger["entries"][-1], "number": 9, "cost": {"epsilon": 1e-3}, "release": None}
    ),
}


@pytest.mark.parametrize("name", LEDGERS)
def test_a_ledger_that_contradicts_itself_does_not_hold(name, tmp_path):
    folder, ledger, _ = saved(tmp_path)
    assert verify(folder, ledger=ledger).holds
    changed = json.loads(json.dumps(ledger))
    LEDGERS[name](changed)
    assert failed(verify(folder, ledger=changed)) == {"ledger"}


@pytest.mark.parametrize(
    ("total", "costs"),
    [
        (qr.ApproxDP(1.0, 1e-6), [qr.PureDP(1 / 7)] * 3 + [qr.ApproxDP(1 / 7, 1e-7)]),
        (qr.ApproxDP(1.0, 1e-6), [qr.PureDP(0.1), qr.ZCDP(0.001), qr.ZCDP(0.002)]),
        (qr.ZCDP(1 / 3), [qr.ZCDP(1 / 9)] * 3),
        (qr.PureDP(1.0), [qr.PureDP(0.1)] * 9),
    ],
    ids=str,
)
def test_an_honest_ledger_of_many_charges_holds_and_its_total_is_told(total, costs, tmp_path):
    with qr.Ledger.open(tmp_path / "people.ledger", total) as ledger:
        for cost in costs[1:]:
            ledger.charge(cost, "other work")
        qr.Curator(TABLE, ledger).release(qr.MaxEnt(), PAIRS, costs[0]).save(tmp_path / "out")
        found = verify(tmp_path / "out", ledger=public_part(ledger))
    assert found.holds
    (told,) = [check.found for check in found.checks if check.name == "ledger"]
    assert f" was spent of the {total.rounded()} that is promised" in told


@pytest.mark.parametrize("left", [0, 1])
def test_measurements_that_are_left_out_are_found(left, tmp_path):
    folder, _, _ = saved(tmp_path)
    edit(lambda content: content.update(measurements=content["measurements"][:left]))(folder)
    rehash(folder)
    assert "measurements" in failed(verify(folder))


def test_a_ledger_names_what_a_mechanism_of_ones_own_released(tmp_path):
    """Such a charge cannot be resumed, so no draws are kept with it."""

    with qr.Ledger.open(tmp_path / "own.ledger", qr.PureDP(1.0)) as ledger:
        release = qr.Curator(TABLE, ledger).release(Columns(), PAIRS, qr.PureDP(1.0))
        assert [r["release"] for r in releases(ledger).values()] == [release.id]
        release.save(tmp_path / "out")
        found = {c.name: c.holds for c in verify(tmp_path / "out", ledger=public_part(ledger)).checks}
        assert (found["mechanism"], found["noise"], found["ledger"]) == (None, True, True)


@pytest.mark.parametrize("called", ["measure residuals of all records", "measure residuals of "])
def test_what_measured_all_records_pays_for_it_also_by_the_name_that_earlier_versions_gave(called, tmp_path):
    folder, _, release = saved(tmp_path, Columns(first=True))
    assert release.spends[0].what == "measure residuals of all records"
    edit(lambda content: content["spends"][0].update(what=called))(folder)
    rehash(folder)
    assert not failed(verify(folder))
    edit(lambda content: content["spends"][0].update(what="measure residuals of sex"))(folder)
    rehash(folder)
    assert "noise" in failed(verify(folder))


@pytest.mark.parametrize("name", [*old.FOLDERS, "values apart"])
def test_folders_of_earlier_versions_hold_as_far_as_can_be_told(name, tmp_path):
    """They load; they have no hashes and no id, and what contradicts itself in them is found all the same."""
    with zipfile.ZipFile(old.FILES) as archive:
        archive.extractall(tmp_path, [n for n in archive.namelist() if n.startswith(f"{name}/")])
    folder = tmp_path / name
    assert qr.load(folder).id == ""
    found = {c.name: c.holds for c in verify(folder).checks}
    assert (found["files"], found["id"]) == (None, None)
    assert failed(verify(folder)) == {"noise source"}
    if any("noise" in m for m in json.loads((folder / "release.json").read_text())["measurements"]):
        edit(less_noise)(folder)
        assert "noise" in failed(verify(folder))


@pytest.mark.slow
@pytest.mark.parametrize("name", MECHANISMS)
def test_what_every_mechanism_releases_holds(name, tmp_path):
    """But that the noise of a test is no secret. Each at one of the costs, which take turns."""
    make, private, asked = MECHANISMS[name]
    cost = [*COSTS][[*MECHANISMS].index(name) % 3]
    for relation in qr.Neighbours:
        with qr.Ledger.open(None, COSTS[cost], neighbours=relation) as ledger:
            curator = qr.Curator(private, ledger, qr.Entropy.insecure(7))
            try:
                release = curator.release(make(), asked(private.domain), COSTS[cost])
            except qr.QReleaseError:
                continue
        release.save(tmp_path / relation.value, 200)
        found = verify(tmp_path / relation.value)
        assert failed(found) == {"noise source"}, str(found)
        assert {c.name: c.holds for c in found.checks}["noise"] is True


def test_records_that_are_counted_twice_hold(tmp_path):
    """First for the plan, which then, with few records at a small cost, measures their number once more."""
    domain = qr.Domain.coded({"sex": 2, "hours": 5})
    table = qr.Table(domain, ([0, 1] * 5, [0, 1, 2, 3, 4] * 2))
    with qr.Ledger.open(None, qr.PureDP(1.0)) as ledger:
        curator = qr.Curator(table, ledger, qr.Entropy.insecure(3))
        release = curator.release(qr.MaxEnt(), qr.Workload.marginals(domain, 2), qr.PureDP(0.1))
    assert [m.group.axes for m in release.measurements].count(()) == 2
    release.save(tmp_path / "out", 10)
    assert failed(verify(tmp_path / "out")) == {"noise source"}
    edit(less_noise)(tmp_path / "out")
    assert "noise" in failed(verify(tmp_path / "out"))


# --- quantiles that were chosen -----------------------------------------------------------------------------------

GRADES = Domain((DOMAIN["sex"], qr.Attribute("grade", "number", edges=(0, 2, 4, 6, 9, 12), within=(0, 11), step=1)))

GRADED = Table(GRADES, (TABLE.columns[0], np.searchsorted((2, 4, 6, 9), ROWS[2], side="right").astype(np.uint8)))


def chosen(folder, cost, neighbours="add-remove"):
    """A release of three quantiles by group that were chosen, and of one of everybody."""
    asked = ["quantile( .25 , .5 ):grade by sex", "histogram:grade", "quantile(.9):grade"]
    with qr.Ledger.open(None, cost, dataset="people", neighbours=neighbours) as ledger:
        mechanism = qr.NumberSums(asked, quantiles="exponential")
        release = qr.Curator(GRADED, ledger).release(mechanism, qr.Workload.marginals(GRADES, 1), cost)
        release.save(folder / "out")
    assert len(release.measured_sums.chosen) == 2
    return folder / "out"


def scaled(*path, by):
    """A forgery of one number of what was chosen."""

    def change(content):
        part = content["numbers"]["chosen"][0]
        for step in path[:-1]:
            part = part[step]
        part[path[-1]] = part[path[-1]] * by

    return change


def other_rule(content):
    for part in content["numbers"]["chosen"]:
        part["rule"] = "exponential" if part["rule"] == "permute-and-flip" else "permute-and-flip"


def moved_between(content):
    """The value for more, the ends of its interval for less: together as much."""
    parts = [s for s in content["spends"] if s["what"].startswith("select quantile")][:3]
    name = "rho" if "rho" in parts[0] else "epsilon"
    parts[0][name], parts[1][name] = parts[0][name] + parts[1][name] / 2, parts[1][name] / 2


def other_cost(content):
    for name, value in content["parameters"]["chosen_quantiles"]["cost"].items():
        content["parameters"]["chosen_quantiles"]["cost"][name] = value / 2


def other_ranks(content):
    part = next(s for s in content["spends"] if s["what"].startswith("select quantile") and "ranks" in s["what"])
    part["what"] = part["what"].replace(", -", ", -1")


def no_cost(content):
    del content["parameters"]["chosen_quantiles"]


def other_weights(weights):
    """A forgery of the shares that the questions have in what is for choosing."""

    def forged(content):
        content["parameters"]["chosen_quantiles"]["weights"] = weights

    return forged


def other_questions(change):
    """A forgery of the questions whose quantiles the parameters say were chosen."""

    def forged(content):
        said = content["parameters"]["chosen_quantiles"]
        said["questions"] = change(said["questions"])

    return forged


def unchosen(content):
    """Choices that the parameters alone tell of."""
    del content["numbers"]["chosen"]
    content["spends"] = [s for s in content["spends"] if not s["what"].startswith("select quantile")]


CHOSEN = {
    "a reach of half as many ranks": scaled("reach", 0, by=0.5),
    "no reach": scaled("reach", 1, by=0.0),
    "finer cells": scaled("parts", by=2),
    "the other rule": other_rule,
    "more for the value than for the ends": moved_between,
    "another cost": other_cost,
    "ends of other ranks": other_ranks,
    "no cost": no_cost,
    "one question less": other_questions(lambda listed: listed[:1]),
    "another order": other_questions(lambda listed: listed[::-1]),
    "a question that was not asked": other_questions(lambda listed: [listed[0], "quantile(.8):grade"]),
    "one asked in other words": other_questions(lambda listed: [listed[0], "quantile(0.9):grade"]),
    "a text": other_questions(lambda listed: listed[0]),
    "a number": other_questions(lambda listed: 2),
    "no choices": unchosen,
    "other shares": other_weights([1, 7]),
    "a share for one question alone": other_weights([1]),
    "a share of nothing": other_weights([0, 1]),
    "a share below nothing": other_weights([-1, 2]),
    "a share in words": other_weights(["one", "two"]),
    "shares in no list": other_weights(3),
}


@pytest.mark.parametrize("cost", [qr.PureDP(4.0), qr.ZCDP(2.0)])
@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
def test_choices_of_quantiles_hold_and_what_does_not_follow_from_their_cost_is_found(cost, neighbours, tmp_path):
    folder = chosen(tmp_path, cost, neighbours)
    assert verify(folder).holds, verify(folder)
    for name, change in CHOSEN.items():
        copied = tmp_path / "copied"
        shutil.copytree(folder, copied)
        edit(change)(copied)
        rehash(copied)
        assert "noise" in failed(verify(copied)), name
        shutil.rmtree(copied)


@pytest.mark.parametrize("told", [True, False])
def test_equal_shares_of_choices_may_be_left_out_as_they_once_were(told, tmp_path):
    folder = chosen(tmp_path, qr.PureDP(4.0))
    content = json.loads((folder / "release.json").read_text())
    weights = content["parameters"]["chosen_quantiles"]["weights"]
    assert len(weights) == 2
    equal = len(set(weights)) == 1

    def change(content):
        if not told:
            del content["parameters"]["chosen_quantiles"]["weights"]

    edit(change)(folder)
    rehash(folder)
    assert ("noise" in failed(verify(folder))) == (not told and not equal)


# --- whom the promise protects ------------------------------------------------------------------------------------


def of_persons(folder, at_most, neighbours, weights="records"):
    """A release whose unit is a person, and the public part of its ledger."""
    domain = Domain(DOMAIN.attributes, person=qr.Person("who", at_most, weights=weights))
    table = Table.of_persons(domain, list(TABLE.columns), [f"p{i // 3}" for i in range(len(TABLE))])
    with qr.Ledger.open(None, qr.PureDP(1.0), neighbours=neighbours, person="who") as ledger:
        release = qr.Curator(table, ledger).release(qr.Laplace(), qr.Workload.marginals(domain, 1), qr.PureDP(1.0))
        release.save(folder / "out")
        return folder / "out", public_part(ledger)


def cost_said(found):
    return next(check.found for check in found.checks if check.name == "cost")


@pytest.mark.parametrize(
    ("neighbours", "differ"), [("add-remove", "more or less"), ("replace-one", "replaced by another")]
)
def test_unit_and_neighbours_are_said_with_the_cost_and_in_the_published_ledger(neighbours, differ, tmp_path):
    for name in ("records", "persons"):
        (tmp_path / name).mkdir()
    folder, ledger, _ = saved(tmp_path / "records", neighbours=neighbours)
    found = verify(folder, ledger=ledger)
    assert cost_said(found).endswith(f"epsilon=1, of one record {differ} ({neighbours})")
    said = {"cost": {"epsilon": 1.0}, "unit": {"of": "record"}, "neighbours": neighbours}
    assert found.to_json()["promise"] == said
    assert (ledger["unit"], ledger["neighbours"]) == ({"of": "record"}, neighbours)

    folder, ledger = of_persons(tmp_path / "persons", 2, neighbours)
    found = verify(folder, ledger=ledger)
    assert found.holds, found
    assert cost_said(found).endswith(f"of one person {differ}, of whom at most 2 records were kept ({neighbours})")
    unit = {"of": "person", "at_most": 2, "counts_once": False}
    assert found.to_json()["promise"] == {"cost": {"epsilon": 1.0}, "unit": unit, "neighbours": neighbours}
    assert ledger["unit"] == {"of": "person", "column": "who"}
    assert ledger["entries"][-1]["release"]["at_most"] == 2

    ledger["entries"][-1]["release"]["at_most"] = 3
    assert failed(verify(folder, ledger=ledger)) == {"ledger"}
    ledger["entries"][-1]["release"]["at_most"] = 2
    assert failed(verify(folder, ledger=ledger | {"unit": {"of": "record"}})) == {"ledger"}


def test_a_person_who_counts_once_is_said_to(tmp_path):
    folder, _ = of_persons(tmp_path, 2, "add-remove", "persons")
    assert "at most 2 records were kept, and who counts once (add-remove)" in cost_said(verify(folder))
