"""A release by the studio: charged first, one at a time, and nothing of a record in any response."""

import threading

from studios import PUBLIC, SECRETS, TERMS, studio_in

import qrelease as qr
from qrelease.apps.cli.studio import CommandLine
from qrelease.apps.studio.app import Studio
from qrelease.privacy import ApproxDP
from qrelease.privacy.ledger import Ledger


def spent(page):
    place = page.studio.folder.path / "people.ledger"
    if not place.exists():
        return None
    with Ledger.open(place) as ledger:
        return ledger.spent


def test_from_a_file_to_a_report_no_response_holds_a_record(page):
    page.ask("files")
    page.reviewed()
    page.good("price", {"terms": TERMS, "records": 300})
    offer = page.confirmed()["offer"]
    assert "has to be confirmed" in page.bad("release", {"offer": offer})
    assert "has to be confirmed" in page.bad("release", {"offer": offer, "confirmed": 1})
    assert spent(page) is None

    found = page.release(total_epsilon=2, total_delta=1e-8)
    assert found["state"] == "done"
    assert found["files"] == ["SHA256SUMS", "answers.csv", "release.json", "report.html", "synthetic.csv"]
    assert found["ledger"]["spent"] == "epsilon=1, delta=1e-09"
    assert found["ledger"]["left"].startswith("epsilon=1, delta=9")
    assert any(line.startswith("spent in all") for line in found["said"])
    assert spent(page) == ApproxDP(1, 1e-9)
    release = qr.load(page.studio.folder.path / "people-release")
    assert release.domain.names == ("sex", "age", "city")
    assert not release.insecure

    report = page.ask("made/people-release/report.html")
    assert report.content.startswith(b"<!DOCTYPE html>")
    assert "sandbox" in report.headers["content-security-policy"]
    for name in found["files"]:
        assert page.ask(f"made/people-release/{name}").content == (release_file(page, name)).read_bytes()
    page.ask("script/release.sh")
    page.ask("script/release.py")
    for name in ("people.csv", "people.ledger", "people.toml"):
        assert page.bad(f"made/people-release/{name}", status=422)
    assert page.bad("made/other/report.html")
    assert page.bad("made/people-release/..%2Fpeople.csv")

    refused_again = page.release(epsilon=1.5)
    assert refused_again["state"] == "failed"
    assert "budget exceeded" in refused_again["error"]
    assert refused_again["error"].endswith("; nothing was charged")
    assert spent(page) == ApproxDP(1, 1e-9)

    page.reviewed([PUBLIC[0], {"name": "city", "kind": "category", "categories": ["Ulm", "Rom"]}])
    failed = page.release(epsilon=0.5)
    assert failed["error"].startswith("people.csv line 2: column 'city' holds a value that is none of the schema's")
    page.reviewed([{"name": "pay", "kind": "number", "bins": [0, 8000], "integer": True}])
    assert "line 2: column 'pay'" in page.release(epsilon=0.5, workload=["marginals:1"])["error"]
    assert spent(page) == ApproxDP(1, 1e-9)
    assert not (page.studio.folder.path / "people-release-2").exists()

    for path, reply in page.answers:
        shown = [s for s in (*SECRETS, "Person 17 of us", "1956-03") if s.encode() in reply.content]
        assert shown == (["Atlantis"] if path == "draft" else []), path


def release_file(page, name):
    return page.studio.folder.path / "people-release" / name


def test_what_is_confirmed_is_charged_once_whatever_another_page_chose_since(page):
    page.reviewed()
    confirmed = page.confirmed(total_epsilon=5, total_delta=1e-8)
    people = page.studio.folder.path / "people.csv"
    people.with_name("others.csv").write_bytes(people.read_bytes())
    page.good("draft", {"file": "others.csv"})  # in another tab
    page.good("schema", {"content": {"attribute": [{**PUBLIC[0], "reviewed": True}]}, "save": True})
    page.good("release", confirmed)
    page.studio.maker.wait()
    assert page.good("made")["state"] == "done"
    assert "ask for the price" in page.bad("release", confirmed)  # a second click, or a browser that sends it again
    page.studio.maker.wait()
    assert spent(page) == ApproxDP(1, 1e-9)
    assert qr.load(page.studio.folder.path / "people-release").domain.names == ("sex", "age", "city")
    assert not people.with_name("others.ledger").exists()


class Edited(CommandLine):
    """A command line whose schema is edited just after the release began."""

    def make(self, arguments, check):
        edit(arguments.schema)
        super().make(arguments, check)


def edit(schema):
    text = schema.read_text()
    assert "width = 40" in text
    schema.write_text(text.replace("width = 40", "width = 20"))


def test_a_schema_that_is_edited_after_the_price_is_not_released(page):
    """Nothing is charged, and what was priced can be confirmed when the file is as it was."""
    page.reviewed()
    confirmed = page.confirmed()
    schema = page.studio.folder.path / "people.toml"
    text = schema.read_text()
    edit(schema)
    assert page.bad("release", confirmed) == (
        "people.toml was changed since the price was asked for: review it, and ask again"
    )
    assert not (page.studio.folder.path / "people.ledger").exists()
    schema.write_text(f"# as it was\n{text}")
    page.good("release", confirmed)
    page.studio.maker.wait()
    assert spent(page) == ApproxDP(1, 1e-9)


def test_a_schema_that_is_edited_while_the_release_begins_is_not_released(in_folder):
    page = studio_in(in_folder)
    page.studio = Studio(in_folder, Edited())
    page.__post_init__()
    page.reviewed()
    failed = page.release()
    assert failed["error"] == (
        "people.toml was changed since the price was asked for: review it, and ask again; nothing was charged"
    )
    assert not (in_folder / "people.ledger").exists()


class Waiting(CommandLine):
    """A command line whose releases wait."""

    def __init__(self):
        self.go, self.begun = threading.Event(), threading.Event()

    def make(self, arguments, check):
        self.begun.set()
        assert self.go.wait(60)
        arguments.charged = "epsilon=1 was charged, and stays spent"
        raise OSError(28, "No space left on device", "/x/people-release")


def test_one_release_at_a_time_and_a_charge_is_told_with_the_error(in_folder):
    program = Waiting()
    page = studio_in(in_folder)
    page.studio = Studio(in_folder, program)
    page.__post_init__()
    assert page.bad("made") == "there is no release yet"
    assert page.bad("script/release.sh") == "there is no release yet"
    page.reviewed()
    page.good("release", page.confirmed())
    assert program.begun.wait(60)
    assert page.good("made")["state"] == "running"
    assert page.good("files")["release"]["state"] == "running"
    later = page.confirmed()
    for _ in range(2):  # what was refused can be confirmed later
        assert page.bad("release", later, status=503) == "a release is being made: one at a time"
    assert page.bad("script/release.sh") == "there is no release yet"
    program.go.set()
    page.studio.maker.wait()
    found = page.good("made")
    assert found["state"] == "failed"
    assert found["charged"]
    assert found["error"] == ("/x/people-release: No space left on device; epsilon=1 was charged, and stays spent")


class Faulty(CommandLine):
    def make(self, arguments, check):
        raise RuntimeError("Zyxwv")


def test_a_fault_tells_its_kind_alone(in_folder):
    page = studio_in(in_folder)
    page.studio = Studio(in_folder, Faulty())
    page.__post_init__()
    page.reviewed()
    assert page.release()["error"] == "a fault of the program: RuntimeError; nothing was charged"


def test_a_release_that_was_moved_away_is_still_told_of(page):
    page.reviewed()
    done = page.release()
    folder = page.studio.folder.path / "people-release"
    folder.rename(folder.with_name("elsewhere"))
    assert page.good("made")["files"] == done["files"]
    assert page.good("files")["release"]["state"] == "done"
    assert page.bad("made/people-release/report.html") == "the folder people-release has no report.html any more"
