"""Records at URLs: of web servers, of a store that speaks S3, and of files."""

import contextlib
import gzip
import io
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from sources import FRAME, RECORDS, ROWS
from stores import NO_S3, basic, s3_server, web_server

from qrelease.apps.cli import main
from qrelease.apps.cli.serve import dataset_options, server_options
from qrelease.apps.cli.serve_file import read_serve_file
from qrelease.data.domain import Domain
from qrelease.data.person import Person
from qrelease.data.schema import to_toml
from qrelease.data.schema_draft import draft
from qrelease.data.sources.compression import open_bytes
from qrelease.data.sources.dialect import Dialect
from qrelease.data.sources.files import dataset_name, each_of, is_remote, local_path, open_reader
from qrelease.data.sources.stores import Address, found_objects, is_url, places_at, public_name
from qrelease.data.table import Table
from qrelease.errors import InvalidInput

pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

DOMAIN = Domain(RECORDS, person=Person("id", 3))
PASSWORD = "hidden/of ours"
SPELLED = "hidden%2Fof%20ours"
SIGNED = "X-Signature=0123456789abcdef&name=a"


def csv_bytes():
    lines = ["id,ward,age", *(f"{r['id']},{r['ward'] or ''},{'' if r['age'] is None else r['age']}" for r in ROWS)]
    return ("\n".join(lines) + "\n").encode()


def written(folder):
    """The same records in files of all kinds that a store has."""
    folder.mkdir()
    (folder / "t.csv").write_bytes(csv_bytes())
    (folder / "t.csv.gz").write_bytes(gzip.compress(csv_bytes()))
    table = pa.table(FRAME)
    parquet.write_table(table, folder / "t.parquet", row_group_size=20)
    for part in range(4):
        parquet.write_table(table.slice(50 * part, 50), folder / f"part-{part}.parquet")
    with pa.ipc.new_file(folder / "t.arrow", table.schema) as file:
        file.write_table(table, max_chunksize=30)
    (folder / "t.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in ROWS))
    (folder / "wrong.csv").write_text("id,ward,age\na,nowhere,20\n")
    return folder


SINGLE = ("t.csv", "t.csv.gz", "t.parquet", "t.arrow", "t.jsonl")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return written(tmp_path_factory.mktemp("stores") / "records")


@pytest.fixture(scope="module")
def server(folder):
    with web_server(folder) as found:
        yield found


@pytest.fixture
def web(server):
    server.ways.clear()
    server.seen.clear()
    return server


@pytest.fixture(scope="module")
def s3(folder, tmp_path_factory):
    if NO_S3:
        pytest.skip(NO_S3)
    with s3_server(tmp_path_factory.mktemp("moto")) as found:
        for file in folder.iterdir():
            found.put(file.name if file.name.startswith("t.") else f"deep/er/{file.name}", file.read_bytes())
        found.put("with a space+plus.csv", csv_bytes())
        yield found


def same(found, folder):
    table = Table.read(folder / "t.parquet", DOMAIN)
    assert [c.tolist() for c in found.columns] == [c.tolist() for c in table.columns]
    assert found.fingerprint(b"key") == table.fingerprint(b"key")
    assert [c.tolist() for c in found.bounded(b"s").columns] == [c.tolist() for c in table.bounded(b"s").columns]


@pytest.mark.parametrize("name", SINGLE)
def test_a_web_server_gives_the_records_of_its_file(name, web, folder):
    same(Table.read(web.at(name), DOMAIN), folder)
    assert len(web.seen) == 1  # however often they are looked at


@pytest.mark.parametrize(
    "name", [*SINGLE, "with a space+plus.csv", "with%20a%20space%2Bplus.csv", "deep/*/part-*.parquet"]
)
@pytest.mark.slow
def test_a_store_gives_the_records_of_its_objects(name, s3, folder):
    same(Table.read(s3.url(name), DOMAIN), folder)


def test_a_store_of_google_without_credentials_or_that_nobody_answers_for_is_refused_in_a_line(tmp_path):
    asked = ["schema", "draft", "gs://people/t.csv?retry_limit_seconds=1", "--out", str(tmp_path / "t.toml")]
    settings = os.environ | {"GOOGLE_APPLICATION_CREDENTIALS": str(tmp_path / "none.json")}
    command = [sys.executable, "-m", "qrelease", *asked]
    done = subprocess.run(command, env=settings, capture_output=True, text=True, check=False)
    assert done.returncode
    assert done.stderr.startswith("qrelease: gs://people/t.csv cannot be read: no credentials for Google's stores")
    assert (done.stderr.count("\n"), "gs://anonymous@bucket/" in done.stderr) == (1, True)
    nobody = "endpoint_override=127.0.0.1:1&scheme=http&retry_limit_seconds=1"
    with pytest.raises(InvalidInput, match=r"^gs://people/t\.csv cannot be read: .{,100}$"):
        found_objects(f"gs://anonymous@people/t.csv?{nobody}")


@pytest.mark.slow
def test_two_stars_of_a_store_are_many_folders(s3):
    def names(pattern):
        return [str(found) for found in found_objects(s3.url(pattern))]

    parts = [f"s3://people/deep/er/part-{part}.parquet" for part in range(4)]
    assert names("**/part-*.parquet") == names("deep/**/part-*.parquet") == names("*/*/part-*.parquet") == parts
    assert names("t.c*") == ["s3://people/t.csv", "s3://people/t.csv.gz"]
    assert places_at(s3.url("**/part-1*")) == parts[1:2]
    each = [s3.url(f"deep/er/part-{part}.parquet") for part in range(4)]  # with its credentials
    assert each_of(s3.url("**/part-*.parquet")) == each
    assert each_of(each[0]) == each[:1]
    s3.put("p-a.csv", csv_bytes())
    s3.put("p-*.csv", csv_bytes())
    starred = s3.url("p-%2A.csv")
    assert starred in each_of(s3.url("p-*.csv"))
    assert [str(found) for found in found_objects(starred)] == ["s3://people/p-*.csv"]
    reader = open_reader(s3.url("deep/**/part-*.parquet"))
    assert (str(reader.path), reader.path.name) == ("s3://people/deep/**/part-*.parquet", "part-*.parquet")


@pytest.mark.slow
def test_an_object_that_is_written_meanwhile_is_refused(s3):
    s3.put("fresh.csv", csv_bytes())
    reader = open_reader(s3.url("fresh.csv"))
    s3.put("fresh.csv", csv_bytes()[::-1])  # of one size
    with pytest.raises(InvalidInput, match=r"^s3://people/fresh\.csv was written while it was read"):
        list(reader.texts())


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("none.csv", "none.csv cannot be read: there is no such object"),
        ("deep", "it is a folder"),
        ("none-*.csv", "no object has a name like s3://people/none-"),
        ("people.duckdb", "a database is read from a file of this machine"),
        ("deep/er/wrong.csv", r"s3://people/deep/er/wrong.csv line 2: column 'ward': value 'nowhere'"),
    ],
)
@pytest.mark.slow
def test_a_store_is_told_of_by_the_names_of_its_objects_alone(name, said, s3):
    with pytest.raises(InvalidInput, match=said) as error:
        Table.read(s3.url(name), DOMAIN)
    assert s3.key not in str(error.value)
    assert s3.secret not in str(error.value)
    assert "endpoint" not in str(error.value)


@pytest.mark.slow
def test_a_store_that_nobody_answers_for_is_told_of_without_credentials(s3):
    url = s3.url("t.csv").replace(str(s3.port), "1")
    with pytest.raises(InvalidInput, match=r"^s3://people/t\.csv cannot be read: ") as error:
        Table.read(url, DOMAIN)
    assert "\n" not in str(error.value)
    assert s3.key not in str(error.value)
    assert s3.secret not in str(error.value)


@pytest.mark.slow
def test_a_store_that_refuses_is_told_of_by_where_credentials_are(tmp_path):
    """In a process of its own, without any of this machine."""
    if NO_S3:
        pytest.skip(NO_S3)
    code = (
        "from qrelease.data.sources.stores import found_objects\n"
        "from qrelease.errors import InvalidInput\n"
        "import sys\n"
        "try: found_objects(sys.argv[1])\n"
        "except InvalidInput as error: print(error)\n"
    )
    clear = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    os_environ = {**clear, "HOME": str(tmp_path), "AWS_EC2_METADATA_DISABLED": "true"}
    with s3_server(tmp_path, INITIAL_NO_AUTH_ACTION_COUNT="0") as strict:
        command = [sys.executable, "-c", code, strict.url("t.csv")]
        done = subprocess.run(command, env=os_environ, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("s3://people/t.csv cannot be read: the store refuses access")
    assert strict.secret not in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("way", "said"),
    [
        (404, "there is no such file on the server"),
        (401, r"the server refuses access \(401\)"),
        (403, r"the server refuses access \(403\)"),
        (500, r"the server answers with an error \(500\)"),
        ({"Content-Length": 9_999}, "the server ended after .* of 9,999 bytes"),
        ({"Connection": "close"}, "does not say how long it is"),
        ({"Content-Length": 10, "Content-Encoding": "br"}, "sends it packed"),
        ({"Content-Length": 1 << 80}, "name another by TMPDIR"),
        ({"Content-Length": "many"}, "cannot be read"),
        ("file:///etc/hostname", r"error \(302\)"),
    ],
)
def test_what_a_web_server_does_not_give_whole_is_refused_without_its_secrets(way, said, web):
    web.ways["/t.csv"] = way
    with pytest.raises(Exception, match=said) as error:
        Table.read(web.at(f"t.csv?{SIGNED}", f"ada:{SPELLED}@"), DOMAIN)
    assert "\n" not in str(error.value)
    assert not [secret for secret in (PASSWORD, SPELLED, "0123456789abcdef") if secret in str(error.value)]


def test_a_file_in_pieces_of_a_length_of_their_own_is_read(web, folder):
    web.ways["/t.csv"] = {"Transfer-Encoding": "chunked"}
    same(Table.read(web.at("t.csv"), DOMAIN), folder)


def test_a_password_goes_to_the_server_that_it_is_for_and_to_no_other(web, folder):
    with web_server(folder) as other:
        web.ways["/here.csv"] = other.at("t.csv")
        same(Table.read(web.at(f"here.csv?{SIGNED}", f"ada:{SPELLED}@"), DOMAIN), folder)
        assert web.seen == [(f"/here.csv?{SIGNED}", basic("ada", PASSWORD))]
        assert other.seen == [("/t.csv", None)]


def test_a_server_that_cannot_be_reached_is_told_of_in_a_line():
    with pytest.raises(InvalidInput, match=r"^https://127\.0\.0\.1:1/t\.csv cannot be read: Connection refused$"):
        Table.read(f"https://ada:{SPELLED}@127.0.0.1:1/t.csv?{SIGNED}", DOMAIN)


BAD = [
    "s3://KEY:hidden/of@people/t.csv",
    "s3://KEY:123/hidden@people/t.csv",
    "https://ada:hidden/of@host/t.csv",
    "https://ada:12/hidden@host/t.csv",
    "https://[hidden/t.csv",
    "https://",
    "s3://KEY:hid?den@people/t.csv",
    "ftp://ada:hidden@host/t.csv",
    "file://ada:hidden@host/t.csv",
]


@pytest.mark.parametrize("url", BAD)
def test_a_url_of_which_it_is_not_sure_where_the_password_is_is_not_repeated(url, capsys):
    with pytest.raises(InvalidInput) as error:
        Table.read(url, DOMAIN)
    assert "hid" not in str(error.value)
    with contextlib.suppress(SystemExit):
        main(["release", url, "--schema", "none.toml", "--epsilon", "1"])
    told = capsys.readouterr()
    assert "hid" not in told.out + told.err
    assert told.err


def test_what_is_shown_of_a_url_has_no_secrets():
    assert public_name(f" HTTPS://ada:{SPELLED}@host:8443/a/t.csv?{SIGNED}#top") == "https://host:8443/a/t.csv"
    assert public_name("s3://K:S@bucket/a%20b/t.csv?region=x") == "s3://bucket/a%20b/t.csv"
    assert dataset_name(f"https://ada:{SPELLED}@host/a/people.csv.gz?{SIGNED}") == "people"
    assert Address("s3://bucket/a/t-*.csv").name == "t-*.csv"
    with pytest.raises(InvalidInput, match=r"^s3://bucket/t-\*\.csv are many objects: give their dataset a name"):
        dataset_name("s3://K:S@bucket/t-*.csv?region=x")


def test_what_is_a_url_and_what_a_file(folder):
    assert is_url("s3://bucket/t.csv")
    assert is_url("gopher://host/t.csv")
    assert not is_url("C:/t.csv")
    assert not is_url(Path("s3://bucket/t.csv"))
    assert not is_remote("postgresql://host/people")
    assert not is_remote((folder / "t.csv").as_uri())
    assert local_path(f"file://localhost{folder}/a%20b.csv") == folder / "a b.csv"
    assert Table.read((folder / "t.csv").as_uri(), DOMAIN).columns[0].tolist()
    assert dataset_name(f"file://{folder}/people.csv") == "people"


def test_patterns_queries_and_dialects_are_for_what_has_them(web, folder):
    with pytest.raises(InvalidInput, match="does not say which files it has"):
        Table.read(web.at("part-*.parquet"), DOMAIN)
    with pytest.raises(InvalidInput, match="a database is read from a file of this machine"):
        Table.read(web.at("t.sqlite"), DOMAIN, query="t")
    with pytest.raises(InvalidInput, match="are for CSV files"):
        Table.read(web.at("t.parquet"), DOMAIN, dialect=Dialect(";"))
    (folder / "semicolons.csv").write_bytes(csv_bytes().replace(b",", b";"))
    same(Table.read(web.at("semicolons.csv"), DOMAIN, dialect=Dialect(";")), folder)


def test_parents_and_drafts_are_read_from_urls_too(web, folder):
    (folder / "parents.csv").write_text("id,age\n" + "".join(f"p{i},{20 + i}\n" for i in range(30)))
    (folder / "visits.csv").write_text("id,ward\n" + "".join(f"{r['id']},{r['ward'] or ''}\n" for r in ROWS))
    joined = Table.read(web.at("visits.csv"), DOMAIN, parent=web.at(f"parents.csv?{SIGNED}", f"ada:{SPELLED}@"))
    assert len(joined) == len(ROWS)
    made = draft(web.at(f"t.csv?{SIGNED}", f"ada:{SPELLED}@"))
    assert "t.csv" in made
    assert "hidden" not in made
    assert "0123456789abcdef" not in made


def test_a_large_file_is_read_by_blocks_and_an_object_from_any_place(web, folder):
    raw = b"id,ward,age\n" + b"p1,north,20\n" * 300_000
    (folder / "large.csv").write_bytes(raw)
    assert len(Table.read(web.at("large.csv"), DOMAIN)) == 300_000
    (stored,) = found_objects(web.at("large.csv"))
    assert (stored.size, stored.suffix, repr(stored)) == (len(raw), ".csv", web.at("large.csv"))
    with open_bytes(stored) as one, open_bytes(stored) as other:
        one.seek(-8, io.SEEK_END)
        other.seek(3)
        other.seek(9, io.SEEK_CUR)
        assert (one.read(), other.read(8), other.tell()) == (raw[-8:], raw[12:20], 20)


@pytest.fixture
def release(tmp_path, in_folder):
    """Release from a URL, by the command line."""
    Path("people.toml").write_text(to_toml(Domain(RECORDS)))

    def run(url, *more):
        command = ["release", url, "--schema", "people.toml", "--epsilon", "1", "--ledger", "people.ledger"]
        return main([*command, "--insecure-seed", "1", "--out", "out", *more])

    return run


def test_a_release_from_a_url_is_that_of_the_file_and_no_file_has_the_credentials(release, web, folder, capsys):
    assert release(web.at(f"t.csv?{SIGNED}", f"ada:{SPELLED}@")) == 0
    told = capsys.readouterr()
    written = {file.name: file.read_bytes() for file in Path("out").iterdir()}
    everything = [*written.values(), Path("people.ledger").read_bytes(), told.out.encode(), told.err.encode()]
    for secret in (PASSWORD, SPELLED, "0123456789abcdef", "X-Signature", basic("ada", PASSWORD).split()[1]):
        assert not [raw for raw in everything if secret.encode() in raw]
    Path("people.ledger").unlink()
    shutil.rmtree("out")
    assert release(str(folder / "t.csv"), "--dataset", "t") == 0
    again = {file.name: file.read_bytes() for file in Path("out").iterdir()}
    assert again["synthetic.csv"] == written["synthetic.csv"]
    assert again["answers.csv"] == written["answers.csv"]


def test_a_job_file_and_a_file_of_datasets_name_urls(web, in_folder, capsys):
    Path("people.toml").write_text(to_toml(Domain(RECORDS)))
    url = web.at(f"t.csv?{SIGNED}", f"ada:{SPELLED}@")
    Path("jobs.toml").write_text(
        f'data = "{url}"\nschema = "people.toml"\nledger = "people.ledger"\n[total]\nepsilon = 1.0\n'
        '[[release]]\nout = "out"\nepsilon = 1.0\nworkload = "marginals:1"\n'
    )
    assert main(["run", "jobs.toml"]) == 0
    assert Path("out", "synthetic.csv").exists()
    told = capsys.readouterr()
    assert "hidden" not in told.out + told.err
    tables = "".join(
        f'[datasets.{name}]\ndata = "{at}"\nschema = "people.toml"\nledger = "{name}.ledger"\nepsilon = 1.0\n'
        for name, at in (("a", url), ("b", web.at("t.csv")))
    )
    Path("serve.toml").write_text(tables)
    with pytest.raises(InvalidInput, match=r"datasets a and b have the same data"):
        read_serve_file(Path("serve.toml"), server_options, dataset_options)


@pytest.mark.parametrize("name", ["none.csv", "wrong.csv", "part-*.parquet"])
def test_what_cannot_be_read_charges_nothing(name, release, web, capsys):
    assert release(web.at(f"{name}?{SIGNED}", f"ada:{SPELLED}@"), "--dataset", "people") == 2
    told = capsys.readouterr().err
    assert len(told.splitlines()) == 1
    assert "hidden" not in told
    assert not Path("people.ledger").exists()
    assert not Path("out").exists()


def test_a_url_has_no_folder_for_a_ledger(web, in_folder, capsys):
    Path("people.toml").write_text(to_toml(Domain(RECORDS)))
    assert main(["release", web.at("t.csv"), "--schema", "people.toml", "--epsilon", "1"]) == 2
    assert "say with --ledger where it is" in capsys.readouterr().err


def test_shards_at_urls_are_counted_and_their_counts_do_not_have_the_credentials(web, in_folder, capsys):
    Path("people.toml").write_text(to_toml(Domain(RECORDS)))
    url = web.at(f"t.parquet?{SIGNED}", f"ada:{SPELLED}@")
    command = ["count", "--schema", "people.toml", "--workload", "marginals:2", "--out"]
    assert main([*command, "counts", url]) == 0
    assert main([*command, "again", web.at("t.parquet")]) == 0
    one, other = (next(Path(out).iterdir()) for out in ("counts", "again"))
    assert one.name == other.name
    assert "hidden" not in capsys.readouterr().out
    assert one.read_bytes() == other.read_bytes()  # by whichever credentials


def test_without_pyarrow_a_store_says_what_it_needs(tmp_path):
    code = (
        "import sys; sys.modules['pyarrow'] = None\n"
        "from qrelease.apps.cli import main\n"
        f"sys.exit(main(['release', 's3://KEY:hidden@people/t.csv', '--schema', {str(tmp_path / 'p.toml')!r},"
        " '--epsilon', '1', '--ledger', 'p.ledger']))"
    )
    (tmp_path / "p.toml").write_text(to_toml(Domain(RECORDS)))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        "qrelease: s3://people/t.csv: an object store needs pyarrow: pip install 'qrelease[parquet]'"
    ]
