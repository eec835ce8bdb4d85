"""Dummy records over HTTP: the same for everybody, whatever the table holds and was asked."""

from replies import problem
from serving import Client, admit, worker
from worlds import PEOPLE, random_table


def test_they_are_the_same_for_every_table_and_free(tmp_path):
    seen = set()
    for number in range(2):
        path = tmp_path / f"{number}.ledger"
        with worker(path, seed=number, table=random_table(PEOPLE, 10_000 + number, number)) as app:
            ada = Client(app, admit(path, "ada"))
            first = [ada.get(f"/v1/dummy?rows=50&format={kind}").content for kind in ("json", "csv")]
            assert not any(ada.get("/v1/budget").json["analyst"]["spent"].values())
            assert ada.ask({"where": "sex = 'F'"}).status == 200
            assert [ada.get(f"/v1/dummy?rows=50&format={kind}").content for kind in ("json", "csv")] == first
            seen.add(tuple(first))
    ((as_json, as_csv),) = seen
    assert as_csv.startswith(b"sex,age,grade\n")
    assert as_csv.count(b"\n") == 51
    assert as_json.count(b"[") == 52


def test_they_take_a_token_and_a_number_of_rows_that_fits(server):
    problem(Client(server.app).get("/v1/dummy"), 401)
    for rows in (0, 100_001):
        problem(server.get(f"/v1/dummy?rows={rows}"), 400)
    assert len(server.get("/v1/dummy").json["rows"]) == 1000
