"""`qrelease warmup` calls every compiled kernel once for each type of its arguments; numba keeps what it compiled."""

import argparse


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command, which has none."""
    parser.set_defaults(run=_warmup)


def _warmup(_: argparse.Namespace) -> None:
    _read()
    _keep()
    _count()
    _fit_histograms()
    _fit_records()
    _draw_noise()
    _draw_databases()
    _find_texts()
    print("all kernels are compiled")


def _read() -> None:
    """Numbers and the bytes of cells, turned into codes."""
    from itertools import product

    import numpy as np

    from qrelease.data.domain import Attribute
    from qrelease.data.sources.csv_kernels import PADDING, split_cells
    from qrelease.data.sources.dialect import Dialect
    from qrelease.data.sources.encoder import Encoder, Spellings
    from qrelease.data.sources.kernels import all_between, bin_codes, drawn_places, key_places, read_only, table_codes

    left = np.empty(1, np.int64)
    for kind in ("int32", "uint8", "uint16"):  # of tables of the schema, and of records
        bin_codes(read_only(np.zeros(1), np.float64), np.array([0.0, 1.0]), True, np.empty(1, kind), left)
    for kind, numbers in product(("uint8", "uint16"), ("int32", "int64")):
        table_codes(read_only(np.zeros(1), numbers), 0, np.array([0, -1], np.int32), np.empty(1, kind), left)
    block, places = b"a\n" + bytes(PADDING), np.zeros((2, 1, 3), np.int32)
    split_cells(np.frombuffer(block, np.uint8), 2, ord(","), ord('"'), np.zeros(1, np.int32), *places)
    spellings = Spellings(Encoder(Attribute("a", "category", categories=("a",))), Dialect())
    spellings.codes(block, places[0, 0, :1], places[1, 0, :1])
    one = np.zeros(1, np.int64)
    all_between(read_only(one, np.int64), -1, 1)
    key_places(read_only(one, np.int64), one.copy(), np.full(1, -1), 0, one.copy(), one.copy())
    drawn_places(np.zeros(1, np.uint64), one.copy(), one.copy(), np.uint64(1), one.copy())


def _keep() -> None:
    """Some of the records of each person, in files and in memory."""
    import numpy as np

    from qrelease.data.kept_records import Choice, kept_columns
    from qrelease.data.persons import Persons
    from qrelease.data.spill import Spill

    nobody = np.empty((0, 2), np.uint64)
    for kinds in ((np.uint8,), (np.uint16,), (np.uint32,), (np.uint8, np.uint16, np.uint32)):  # words of each width
        types = [*map(np.dtype, kinds), np.dtype(np.int64)]
        spill = Spill(types, -1, by_word=True)
        spill.add([np.zeros(1, kind) for kind in types])
        (*columns, words), cuts = spill.whole()
        choice = Choice(1, bytes(1), [("a", place, None) for place in range(len(columns))])
        kept_columns(Persons.of_words(words, nobody, cuts), columns, choice)
    many = np.arange(1 << 18)  # so many that they are looked at in parts
    columns = [np.zeros(len(many), kind) for kind in types[:-1]]
    kept_columns(Persons.of_words(many, nobody), columns, choice)


def _count() -> None:
    """Records, counted into the tables of their marginals."""
    import numpy as np

    from qrelease.data.domain import Domain
    from qrelease.data.marginals.record_tables import Tables
    from qrelease.data.table import Table
    from qrelease.queries.workload import Workload

    domain = Domain.coded(dict.fromkeys("abcdefghi", 2))
    Table(domain, (np.zeros(1, np.uint8),) * len(domain)).counts(Workload.marginals(domain, 3).sets)
    for size in (1 << 9, 1 << 17):  # codes of two bytes, and of four
        Table(Domain.coded({"a": size}), (np.zeros(1, np.uint8),)).counts([(0,)])
    pair = Tables((2, 2), [(0, 1)])
    for rows in (1, 1 << 21):  # few records are taken as they are, many in slices, which are another type of array
        codes = np.zeros((2, rows), np.uint16)
        pair.marginals(codes, np.zeros(rows))
        pair.sums(codes, np.zeros(4))


def _fit_histograms() -> None:
    """Histograms, scaled by all kinds of queries, asked, and drawn from."""
    import numpy as np

    from qrelease.data.domain import Domain
    from qrelease.inference.histogram import Histogram, transform
    from qrelease.queries.workload import Workload

    domain = Domain.coded(dict.fromkeys("abcdefghi", 2))
    workload = Workload.marginals(domain, 3)
    one = Workload.predicates(domain, "a = 1 and i = 1")
    whole = Workload.predicates(domain, " and ".join(f"{name} = 1" for name in domain.names))
    for cells in (np.float64, np.float32):
        state = Histogram(domain, workload.sets, 1.0, cells)
        state.multiply(np.zeros(len(workload)))
        for group in (one + whole + Workload.vectors(domain, np.full((1, domain.size), 0.5))).groups:
            state.update(group, [0.0])
        state.answer(one)
        state.answer(workload)
        transform(np.zeros(1 << 16, cells))
        state.sample(1, np.random.default_rng(0))


def _fit_records() -> None:
    """Weighted records, moved, fitted to residuals, and drawn from."""
    import numpy as np

    from qrelease.data.domain import Domain
    from qrelease.inference.gibbs import GibbsSampler
    from qrelease.inference.log_linear import finish, fit_records
    from qrelease.inference.residuals import Estimates, Residual
    from qrelease.inference.weighted_records import WeightedCodes

    two, rng = Domain.coded({"a": 2, "b": 2}), np.random.default_rng(0)
    residuals = {s: Residual(s, np.zeros((2,) * len(s)), 1.0) for s in [(0,), (1,), (0, 1)]}
    estimates = Estimates(two, {(): Residual((), np.array(4.0), 0.0), **residuals})
    GibbsSampler((2, 2), [((0, 1), np.zeros(4))], {}, [(0, 1)]).sweep(np.zeros((2, 1), np.uint16), rng)
    ended = finish(estimates, 4, rng=rng, start=fit_records(estimates, 4, rounds=1, rng=rng))
    WeightedCodes(two, ended.chains.codes, ended.chains.weights, 4.0).sample(4, rng)


def _draw_noise() -> None:
    """The samplers, at scales that take few bits and many, and the selections."""
    from fractions import Fraction

    import numpy as np

    from qrelease.noise import samplers, selection
    from qrelease.noise.entropy import Entropy

    entropy = Entropy()
    for scale in (Fraction(1), Fraction(10**6)):
        samplers.discrete_laplace(scale, 1, entropy)
        samplers.geometric(scale, 1, entropy)
        samplers.discrete_gaussian(scale, 1, entropy)
        samplers.rounded_gaussian(scale, 1, entropy)
    scores = np.array([1, 1, 0])
    for select in (selection.exponential_mechanism, selection.permute_and_flip):
        select(scores, Fraction(1), 1, entropy)


def _draw_databases() -> None:
    """Small databases, listed and searched."""
    from fractions import Fraction

    import numpy as np

    from qrelease.mechanisms.small_db.branch_and_bound import draw_database
    from qrelease.mechanisms.small_db.databases import Bounds, Databases
    from qrelease.noise.entropy import Entropy

    databases = Databases.over(np.eye(4, dtype=np.int64), 3)
    bounds = Bounds(np.array([3, 0, 0, 0]), np.ones(4, np.int64))
    databases.all_errors(bounds)
    databases.errors(bounds, np.arange(1))
    databases.cells(0)
    draw_database(databases, bounds, Fraction(1), Entropy())


def _find_texts() -> None:
    """Local reports on texts, hashed with prefixes."""
    import numpy as np

    from qrelease.local import Text, serve

    server = serve(Text(1.0, "ab", 1))
    server.estimate(server.from_codes(np.array([0])))
