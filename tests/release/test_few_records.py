"""Error bars that are larger than the table are explained, in one sentence, and others are not."""

import numpy as np
import pytest
from worlds import coded, random_table

import qrelease as qr
from qrelease.apps.cli import main
from qrelease.release.few_records import few_records
from qrelease.release.report.page import html

DOMAIN = coded(4, 10, 3, 2, 5)
PAIRS = qr.Workload.marginals(DOMAIN, 2)


def released(records, epsilon, mechanism):
    cost = qr.PureDP(epsilon)
    with qr.Ledger.open(None, cost) as ledger:
        curator = qr.Curator(random_table(DOMAIN, records, 0), ledger, qr.Entropy.insecure(1))
        return curator.release(mechanism, PAIRS, cost)


@pytest.mark.parametrize("mechanism", [qr.Laplace(), qr.MaxEnt()], ids=lambda m: m.name)
def test_of_a_survey_of_sixty_people_it_is_said_why_bars_are_larger_than_the_table(mechanism):
    release = released(60, 0.1, mechanism)
    said = few_records(release)
    half = np.median(release.error_bars(PAIRS)[1])
    assert half > release.synopsis.total
    assert said.startswith(f"Half of the answers were measured no better than to ± {half:,.0f} records")
    assert f"about {release.synopsis.total:,.0f}: " in said
    assert f"{len(PAIRS)} answers share epsilon=0.1. A larger epsilon, fewer questions or coarser columns" in said
    published = np.median(release.model_bars(PAIRS))
    assert (f"half of its bars are within ± {published:,.3g}." in said) == (published <= release.synopsis.total / 2)
    assert f"<h2>How accurate is this</h2><p><strong>{said}</strong></p>" in html(release)


@pytest.mark.parametrize("mechanism", [qr.Laplace(), qr.MaxEnt()], ids=lambda m: m.name)
def test_of_enough_people_nothing_is_said(mechanism):
    release = released(20_000, 0.5, mechanism)
    assert not few_records(release)
    assert "<h2>How accurate is this</h2><p>Publish" in html(release)


def test_the_terminal_says_it_too(tmp_path, capsys):
    (tmp_path / "survey.csv").write_text("a,b\n" + "".join(f"{i % 4},{i % 7}\n" for i in range(60)))
    (tmp_path / "survey.json").write_text('{"a": 4, "b": 7}')
    command = ["release", str(tmp_path / "survey.csv"), "--schema", str(tmp_path / "survey.json")]
    command += ["--workload", "marginals:2", "--neighbours", "replace-one", "--out"]  # where n is public
    assert main([*command, str(tmp_path / "out"), "--epsilon", "0.05", "--total-epsilon", "11"]) == 0
    assert "Half of the answers were measured no better than to ± " in capsys.readouterr().out
    assert main([*command, str(tmp_path / "more"), "--epsilon", "10"]) == 0
    assert "no better than" not in capsys.readouterr().out
