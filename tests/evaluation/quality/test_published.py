"""What a release publishes against the real table: the truth by definition, and errors that are known by hand."""

import json
import math
from collections import defaultdict
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import qrelease as qr
from qrelease.data.domain import Attribute, Domain
from qrelease.data.table import Table
from qrelease.errors import InvalidInput
from qrelease.evaluation.quality import page
from qrelease.evaluation.quality.published import Published, exact_numbers, published, published_lines
from qrelease.evaluation.quality.quality import quality

PAY = Attribute("pay", "number", edges=(0, 5, 10), within=(0, 10), step=0.5, missing=("",))
DOMAIN = Domain(
    (Attribute("sex", "category", categories=("F", "M", "X")), PAY, Attribute("town", "coded", codes=4, ordered=True))
)

QUESTIONS = [
    "count by sex where town in 1..3",
    "histogram:town by sex",
    "sum:pay by town",
    "mean:pay by sex where town in 1..3",
    "variance:pay by town",
    "quantile(.25,.5,.9):pay by town",
    "ratio:town in 2..3 by sex",
]


def rows(n=400):
    """Nobody is X; every ninth pay is missing."""
    rng = np.random.default_rng(5)
    pay = rng.integers(0, 21, n) / 2
    return [("FM"[i % 2], None if i % 9 == 0 else float(pay[i]), int(rng.integers(4))) for i in range(n)]


def table(domain=DOMAIN):
    return Table.from_frame(pd.DataFrame(rows(), columns=["sex", "pay", "town"]), domain)


def released(epsilon=50.0):
    workload = qr.Workload.marginals(DOMAIN, 2) + qr.Workload.numbers(DOMAIN, *QUESTIONS)
    mechanism, cost = qr.NumberSums(mechanism=qr.MaxEnt()), qr.PureDP(epsilon)
    with qr.Ledger.open(None, cost) as ledger:
        return qr.Curator(table(), ledger, qr.Entropy.insecure(3)).release(mechanism, workload, cost)


def by_definition(text):
    """The answer to each question, by what its line is of, without any of the package's arithmetic."""
    groups = defaultdict(list)
    for sex, pay, town in rows():
        groups[sex, town].append(pay)
    merged = defaultdict(list)
    for (sex, town), values in groups.items():
        if "where" not in text or town >= 1:
            merged[sex if " by sex" in text else str(town)] += [(town, v) for v in values]
    kind = text.partition(":")[0].partition(" ")[0]
    found = {}
    for group, records in merged.items():
        pays = sorted(v for _, v in records if v is not None)
        if kind == "count":
            found[group] = len(records)
        elif kind == "histogram":
            found |= {f"{group} * {t}": sum(town == t for town, _ in records) for t in range(4)}
        elif kind == "sum":
            found[group] = math.fsum(pays)
        elif kind == "mean":
            found[group] = math.fsum(pays) / len(pays)
        elif kind == "variance":
            mean = math.fsum(pays) / len(pays)
            found[group] = math.fsum((v - mean) ** 2 for v in pays) / len(pays)
        elif kind == "ratio":
            found[group] = sum(town >= 2 for town, _ in records) / len(records)
        else:
            for p in (0.25, 0.5, 0.9):
                found[f"{group} (quantile {p})"] = pays[math.ceil(p * len(pays)) - 1]
    return found


def test_the_truth_of_numbers_is_that_of_the_records():
    release, real = released(), table()
    lines = 0
    for answer, text in zip(release.number_tables(), QUESTIONS, strict=True):
        truth = exact_numbers(real, answer)
        wanted = by_definition(text)
        labels = [label_of(answer, line) for line in range(len(answer))]
        for label, value in zip(labels, truth.tolist(), strict=True):
            if label.startswith("X"):
                assert value == 0 or math.isnan(value)
            else:
                assert value == pytest.approx(wanted[label], rel=1e-12), (text, label)
                lines += 1
    assert lines > 30


def label_of(answer, line):
    question = answer.question
    parts = [question.domain[n].labels[c] for n, c in zip(answer.names, answer.keys[line].tolist(), strict=True)]
    label = " * ".join(parts)
    if question.kind == "quantile":
        label += f" (quantile {question.probabilities[line % len(question.probabilities)]})"
    return label


def test_errors_and_bars_are_counted_by_hand():
    real, given = np.array([10.0, 20, 30, np.nan]), np.array([11.0, 17, 30, 5])
    bar = np.array([2.0, 2, np.nan, 2])
    found = Published.of("answers", real, given, given - bar, given + bar)
    assert (found.lines, found.bars, found.bar, found.within) == (3, 2, 2.0, 0.5)
    assert found.rmse == pytest.approx(math.sqrt(10 / 3))
    nothing = Published.of("answers", real[3:], given[3:], given[3:], given[3:], "why")
    assert (nothing.lines, nothing.bars, math.isnan(nothing.rmse)) == (0, 0, True)
    assert nothing.to_json()["rmse"] is None
    assert str(nothing) == "answers: why"


def test_a_release_is_judged_by_all_that_it_publishes(tmp_path):
    release, real = released(), table()
    found = published(real, release)
    assert [p.what for p in found[:2]] == ["answer ± model_95", "noisy ± error_95"]
    assert [p.what for p in found[2:]] == [str(answer.question) for answer in release.number_tables()]
    assert found[0].lines == len(qr.Workload.marginals(DOMAIN, 2))
    assert found[0].rmse < 2, "next to no noise at this cost"
    assert found[0].within > 0.8
    assert found[2].lines == 3
    # On less, the errors are larger.
    assert published(real, released(0.5))[0].rmse > 3 * found[0].rmse
    other = Domain((*DOMAIN.attributes[:2], Attribute("town", "coded", codes=5, ordered=True)))
    with pytest.raises(InvalidInput, match="another universe"):
        published(table(other), release)
    judged = replace(quality(real, real, targets=[]), published=found)
    page.write_page(judged, tmp_path)
    text = (tmp_path / "quality.html").read_text()
    assert "How far off what was published is" in text
    assert text.index("NOT PRIVATE") < text.index("How far off")
    content = json.loads((tmp_path / "quality.json").read_text())
    assert [line["what"] for line in content["published"]] == [p.what for p in found]
    assert "answer ± model_95" in str(judged)


def test_a_release_in_memory_is_judged_as_one_in_a_folder_is():
    release = released()
    found = quality(table(), release, targets=[])
    assert found.published == published(table(), release)
    assert len(found.synthetic) == len(release.synthetic()["sex"])
    assert "published, against the real table" in str(found)
    with pytest.raises(InvalidInput, match=r"^the release was made with another schema or other columns"):
        quality(Table(Domain.coded({"a": 2}), ([0, 1],)), release)


def test_a_release_without_a_table_is_refused():
    cost = qr.ApproxDP(1.0, 1e-9)
    with qr.Ledger.open(None, cost) as ledger:
        release = qr.Curator(table(), ledger).release(qr.Matrix(), qr.Workload.ranges(DOMAIN, "pay"), cost)
    with pytest.raises(InvalidInput, match=r"^the release has no synthetic table to judge"):
        quality(table(), release)


def test_a_frame_in_place_of_the_real_table_is_refused_at_once():
    frame = pd.DataFrame(rows(), columns=["sex", "pay", "town"])
    told = r"^quality takes a table, got DataFrame: make one by qr.Table.from_frame\(frame, schema\)"
    with pytest.raises(InvalidInput, match=told):
        quality(frame, table())


def test_a_note_of_all_lines_is_said_once():
    lines = [Published(what, 5, 1.0, 5, 2.0, 1.0, "of all records") for what in ("answer", "noisy")]
    told = published_lines(lines)
    assert [line.count("of all records") for line in told] == [0, 0, 0, 1]
    assert published_lines([lines[0], replace(lines[1], note="")])[1].endswith(" (of all records)")
