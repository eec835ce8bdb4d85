"""`qrelease card`: Markdown or JSON, with what only the holder knows from a file."""

import json

from releases import released

import qrelease as qr
from qrelease.apps.cli import main
from qrelease.release.card import HOLDERS, TO_FILL_IN

ADULT = qr.data.adult(["sex", "income"])


def test_the_command_writes_markdown_or_json(tmp_path, capsys):
    released(table=ADULT, asked=qr.Workload.marginals(ADULT.domain, 2)).save(tmp_path / "out")
    (tmp_path / "card.toml").write_text('name = "Adult, 1994"\n')
    assert main(["card", str(tmp_path / "out"), "--fill", str(tmp_path / "card.toml")]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("# Deployment card")
    assert "- **name**: Adult, 1994" in shown
    assert shown.count(TO_FILL_IN) == len(HOLDERS) - 1
    assert main(["card", str(tmp_path / "out"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["mechanism"]["name"] == "mwem"
    assert main(["card", str(tmp_path / "out"), "--out", str(tmp_path / "card.md")]) == 0
    assert (tmp_path / "card.md").read_text().startswith("# Deployment card")
    assert main(["card", str(tmp_path / "out"), "--out", str(tmp_path / "card.md")]) == 2  # it is there
    assert "File exists" in capsys.readouterr().err
    (tmp_path / "bad.toml").write_text("name = ")
    for file in ("bad.toml", "none.toml"):
        assert main(["card", str(tmp_path / "out"), "--fill", str(tmp_path / file)]) == 2
        assert capsys.readouterr().err.count("\n") == 1
