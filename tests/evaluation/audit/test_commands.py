"""The adversary at the command line: estimates, learned schemas, scores and numbers, and a twin that leaks at each."""

import csv
import json
from collections import Counter
from functools import partial

import pytest
from in_process import in_process

from qrelease.evaluation.audit.commands import SCENES, Ran, estimated, release_command
from qrelease.evaluation.audit.doors import audit_commands, command_door
from qrelease.evaluation.audit.observed import differences, neighbouring, neighbouring_persons
from qrelease.privacy import ApproxDP, Neighbours, PureDP
from qrelease.statistics.catalogue import STATISTICS

ADD, SWAP = Neighbours.ADD_REMOVE, Neighbours.REPLACE_ONE
BOTH = ApproxDP(1.0, 1e-3)
SUMS_ABOVE = "above-thresholds:a,threshold=2,measure=sum,column=b"
SCENE = [pytest.param(name, i, id=f"{name}{i}") for name, scenes in SCENES.items() for i in range(len(scenes))]
MORE = {
    "textbook-mean": "b",
    "smooth-sensitivity": "b,of=median",
    "recursive-quantiles": "b,qs=0.25/0.75",
    "tree-quantiles": "b,qs=0.25/0.75",
    "above-thresholds": "a/b,threshold=5",
    "propose-test-release": "b,bound=1",
    "vector-mean": "b",
    "truncated-mean": "b,radius=1",
    "sparse-mean": "2,origin=0",
    "peeling-mean": "2,origin=0",
    "independence-test": "a,second=b",
    "fit-test": "b,shares=1/2/3",
    "uniformity-test": "a",
    "efficient-tester": "a,distance=0.5",
    "adassp": "b,features=a",
    "functional-mechanism": "b,features=a",
    "noisy-descent": "b,features=a",
}


def cost_of(name, i):
    return BOTH if name in ("learn", "learned") else PureDP(1.0)


def found_at(name, i, neighbours, run=in_process, pairs=None, at_most=None, seeds=3):
    scene = SCENES[name][i]
    door = command_door(scene, cost_of(name, i), run)
    kept = at_most or scene.children
    return differences("command line", name, door, neighbours, seeds=seeds, pairs=pairs, at_most=kept)


@pytest.mark.parametrize("neighbours", [ADD, SWAP])
@pytest.mark.parametrize(("name", "i"), SCENE)
def test_of_a_command_only_what_is_noisy_differs(name, i, neighbours):
    found = found_at(name, i, neighbours, seeds=1)
    assert not found.convicted, str(found)
    assert found.fields > 40


@pytest.mark.parametrize("neighbours", [ADD, SWAP])
@pytest.mark.parametrize("name", ["estimate", "learn", "learned", "numbers"])
def test_of_a_command_on_persons_only_what_is_noisy_differs(name, neighbours):
    found = found_at(name, 0, neighbours, pairs=neighbouring_persons(neighbours, 2)[:3], at_most=2, seeds=1)
    assert not found.convicted, str(found)


@pytest.mark.parametrize("neighbours", [ADD, SWAP])
def test_of_a_release_that_is_charged_with_its_schema_only_what_is_noisy_differs(neighbours):
    """Of persons, who vote for its categories; of records it is one of all scenes."""
    pairs = neighbouring_persons(neighbours, 2)[:3]
    found = found_at("learned", 2, neighbours, pairs=pairs, at_most=2, seeds=1)
    assert not found.convicted, str(found)


@pytest.mark.parametrize("mechanism", ["laplace", "maxent"])
def test_of_a_release_on_persons_only_what_is_noisy_differs(mechanism):
    for neighbours in Neighbours:
        pairs = neighbouring_persons(neighbours, 2)[:3]
        door = command_door(release_command(mechanism), BOTH if mechanism == "maxent" else PureDP(1.0), in_process)
        found = differences("command line", mechanism, door, neighbours, seeds=1, pairs=pairs, at_most=2)
        assert not found.convicted, str(found)


PERSONS = {"once": {"weights": "persons"}, "distinct": {"distinct": ("b",)}}


def of_persons(how, neighbours):
    """Tables of 0, 1, 2 and 3 persons under add-remove, and of 1, 2 and 3 under replace-one."""
    return neighbouring_persons(neighbours, 2, **PERSONS[how])[:3]


@pytest.mark.parametrize("neighbours", [ADD, SWAP])
@pytest.mark.parametrize("mechanism", ["laplace", "maxent", "records"])
@pytest.mark.parametrize("how", PERSONS)
def test_of_persons_who_count_once_or_whose_records_differ_only_what_is_noisy_differs(how, mechanism, neighbours):
    door = command_door(release_command(mechanism), BOTH if mechanism == "maxent" else PureDP(1.0), in_process)
    found = differences("command line", mechanism, door, neighbours, seeds=1, pairs=of_persons(how, neighbours))
    assert not found.convicted, str(found)


@pytest.mark.slow
@pytest.mark.parametrize("at_most", [None, 2])
@pytest.mark.parametrize("neighbours", [ADD, SWAP])
@pytest.mark.parametrize(("name", "i"), SCENE)
def test_of_a_command_under_several_noises_only_what_is_noisy_differs(name, i, neighbours, at_most):
    found = found_at(name, i, neighbours, at_most=at_most)
    assert not found.convicted, str(found)


@pytest.mark.slow
@pytest.mark.parametrize("neighbours", [ADD, SWAP])
@pytest.mark.parametrize(
    "name",
    [*sorted({*STATISTICS} - {"sample-and-aggregate", "mean", "quantile", "most-common"}), "above-thresholds of sums"],
)
def test_of_every_statistic_only_what_is_noisy_differs(name, neighbours):
    asked = f"{name}:{MORE.get(name, 'b')}" if name in STATISTICS else SUMS_ABOVE
    door = command_door(estimated(asked), BOTH, in_process)
    found = differences("command line", "estimate", door, neighbours, seeds=1)
    assert not found.convicted, str(found)


# --- twins that leak: all convicted


def records(folder):
    return len((folder / "people.csv").read_text().splitlines()) - 1


def in_a_choice(folder, ran):
    content = json.loads((folder / "out.json").read_text())
    content["choices"]["n"] = records(folder)
    (folder / "out.json").write_text(json.dumps(content))
    return ran


def in_the_page(folder, ran):
    (folder / "out.html").write_text(
        (folder / "out.html").read_text().replace("<h2>", f"<!-- {records(folder)} --><h2>")
    )
    return ran


def in_a_comment(folder, ran):
    with (folder / "learned.toml").open("a") as file:
        file.write(f"# of {records(folder)} records\n")
    return ran


def in_a_bound(folder, ran):
    file = folder / "learned.toml"
    file.write_text(file.read_text().replace("within = [0, 15]", f"within = [0, {15 + records(folder)}]"))
    return ran


def by_the_exit_code(folder, ran):
    return ran._replace(exit=records(folder) % 2)


def by_a_refusal(folder, ran):
    return Ran(2, "", "qrelease: too few records\n") if records(folder) < 2 else ran


def by_a_printed_number(folder, ran):
    return ran._replace(stderr=f"read {records(folder)} records\n")


def beside_a_noisy_number(before, after, folder, ran):
    """In a line that has noisy numbers too, in place of one that is none."""
    return ran._replace(stdout=ran.stdout.replace(before, after.format(records(folder))))


def by_a_log_line(folder, ran):
    return ran._replace(log=["INFO qrelease: read no records"] * (records(folder) > 0))


def by_a_file(folder, ran):
    (folder / "trace").touch() if records(folder) > 1 else None
    return ran


def in_the_manifest(folder, ran):
    file = folder / "out" / "release.json"
    content = json.loads(file.read_text())
    content["parameters"]["n"] = records(folder)
    file.write_text(json.dumps(content))
    return ran


def rows_of(folder, name):
    with (folder / name).open() as file:
        return [*csv.DictReader(file)]


def childless(folder):
    """How many parents have no children."""
    return len(
        {row["who"] for row in rows_of(folder, "parents.csv")} - {row["who"] for row in rows_of(folder, "people.csv")}
    )


def of_the_children(folder, ran):
    file = folder / "out" / "children" / "release.json"
    content = json.loads(file.read_text())
    content["parameters"]["childless"] = childless(folder)
    file.write_text(json.dumps(content))
    return ran


def by_a_child_more(folder, ran):
    with (folder / "out" / "children.csv").open("a") as file:
        file.write("0,1,1\n" * childless(folder))
    return ran


def by_printed_children(folder, ran):
    return ran._replace(stderr=f"joined {len(rows_of(folder, 'people.csv'))} children\n")


def leaky(leak, arguments, folder):
    ran = in_process(arguments, folder)
    return leak(folder, ran)


@pytest.mark.parametrize(
    ("name", "leak", "path"),
    [
        ("estimate", in_a_choice, "out.json/choices/n"),
        ("estimate", in_the_page, "out.html beyond the manifest"),
        ("estimate", by_the_exit_code, "0 estimate/exit"),
        ("learn", in_a_comment, "learned.toml/comments/2"),
        ("learn", in_a_bound, "learned.toml/attribute/1/within/1"),
        ("learn", by_a_log_line, "0 schema/log/0"),
        ("score", by_a_refusal, "1 score/stderr/0"),
        ("score", by_a_printed_number, "2 score/stderr/0/numbers/0"),
        ("score", partial(beside_a_noisy_number, "1-marginal", "{}-marginal"), "2 score/stdout/2/numbers/0"),
        ("score", partial(beside_a_noisy_number, " 95 %", " {} %"), "2 score/stdout/11/numbers/0"),
        ("numbers", in_the_manifest, "release.json/parameters/n"),
        ("numbers", by_a_file, "left"),
        ("learned", by_a_printed_number, "0 release/stderr/0/numbers/0"),
    ],
)
def test_a_command_that_leaks_is_convicted(name, leak, path):
    found = found_at(name, 0, ADD, partial(leaky, leak), pairs=neighbouring(ADD)[:2], seeds=1)
    assert path in {d.path for d in found.differences}, str(found)


@pytest.mark.parametrize("neighbours", [ADD, SWAP])
@pytest.mark.parametrize(
    ("name", "leak", "path"),
    [
        ("both", of_the_children, "children/release.json/parameters/childless"),
        ("both", by_a_child_more, "children.csv beyond the manifest"),
        ("both", by_a_file, "left"),
        ("parent", in_the_manifest, "release.json/parameters/n"),
        ("parent", by_printed_children, "0 release/stderr/0/numbers/0"),
    ],
)
def test_a_release_with_parents_that_leaks_is_convicted(name, leak, path, neighbours):
    """Under replace-one, too, where how many parents there are is public, and of children it is not."""
    pairs = neighbouring_persons(neighbours, 2)[:3]
    found = found_at(name, 0, neighbours, partial(leaky, leak), pairs=pairs, seeds=1)
    assert path in {d.path for d in found.differences}, str(found)


def records_that_are_kept(folder, ran):
    """Of a person whose records are equal in what is distinct one is kept: how many, all together."""
    with (folder / "people.csv").open() as file:
        kept = {(row["who"], row["b"]) for row in csv.DictReader(file)}
    return ran._replace(stderr=f"{len(kept)} records were kept\n")


def largest_part(folder, ran):
    """Under replace-one the number of persons is public, and of how many records they count is not."""
    with (folder / "people.csv").open() as file:
        owned = Counter(row["who"] for row in csv.DictReader(file))
    return ran._replace(log=[f"{max(owned.values(), default=0)} records of a person at most"])


@pytest.mark.parametrize("neighbours", [ADD, SWAP])
@pytest.mark.parametrize(
    ("how", "leak", "path"),
    [
        ("distinct", records_that_are_kept, "0 release/stderr/0/numbers/0"),
        ("once", largest_part, "0 release/log/0/numbers/0"),
        ("once", in_the_manifest, "release.json/parameters/n"),
    ],
)
def test_a_release_on_persons_that_leaks_what_is_kept_is_convicted(how, leak, path, neighbours):
    door = command_door(release_command("laplace"), PureDP(1.0), partial(leaky, leak))
    found = differences("command line", "laplace", door, neighbours, seeds=1, pairs=of_persons(how, neighbours))
    assert path in {d.path for d in found.differences}, str(found)


def test_an_audit_of_commands_has_one_finding_a_scene():
    found = audit_commands("learn", PureDP(1.0), SWAP, run=in_process)
    assert [(door.mechanism, door.convicted) for door in found] == [("learn", False)] * 2
