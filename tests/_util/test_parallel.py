"""Work in pieces: the same ones on however many cores, so that sums of floats are the same to the last bit."""

import threading
from contextlib import ExitStack
from itertools import combinations

import numpy as np
import pytest
from pieces import cut_from
from threadpoolctl import ThreadpoolController
from worlds import coded

from qrelease._util import parallel
from qrelease.data.marginals.plan import MarginalPlan
from qrelease.inference.histogram import Histogram
from qrelease.queries.workload import Workload


@pytest.fixture
def on():
    """`on(n)` pretends that there are n cores; all work is worth them."""
    with ExitStack() as stack:
        yield lambda number: stack.enter_context(cut_from(1, number))


@pytest.mark.parametrize("length", [0, 1, 7, 16, 1000])
def test_pieces_cover_everything_once_and_come_in_order(on, length):
    on(3)
    found = parallel.in_parallel(lambda i, cut: (i, list(range(length))[cut]), length, 1)
    assert [i for i, _ in found] == [*range(max(min(length, 16), 1))]
    assert [j for _, part in found for j in part] == [*range(length)]


def test_little_work_stays_where_it_is():
    here = threading.get_ident()
    assert parallel.in_parallel(lambda *_: threading.get_ident(), 100, parallel.MIN_PARALLEL_CELLS - 1) == [here]


def test_much_work_goes_to_threads(on):
    on(2)
    assert threading.get_ident() not in parallel.in_parallel(lambda *_: threading.get_ident(), 100, 1)
    on(1)
    assert {*parallel.in_parallel(lambda *_: threading.get_ident(), 100, 1)} == {threading.get_ident()}


def test_each_piece_may_need_memory_of_its_own(on):
    on(8)
    assert len(parallel.in_parallel(lambda *_: None, 100, 1, most=3)) == 3


def outcomes(dtype):
    """Whatever is made of the sums of floats by pieces."""
    shape, rng = (5, 4, 3, 2, 3, 2, 5), np.random.default_rng(0)
    plan = MarginalPlan.choose(shape, [*combinations(range(7), 3), (0, 1, 2, 3, 4)])
    table = rng.random(3600).astype(dtype)
    yield plan.marginals(table)
    yield plan.scale(table, np.exp(rng.normal(size=plan.offsets[-1]) / 100))
    yield table
    for domain in (coded(*shape), coded(*[2] * 16)):
        state = Histogram(domain, list(combinations(range(7), 2)), 1e4, dtype)
        state.multiply(rng.normal(size=len(state.marginals)))
        dense = Workload.vectors(domain, rng.random((1, domain.size)))
        for query in (*Workload.predicates(domain, "a = 1 and g = 1").groups, *dense.groups):
            state.update(query, [0.1])
            yield state.answer(Workload.predicates(domain, "a = 1 and c = 0"))
        yield state.answer(Workload.predicates(domain, "b = 1 and d = 0"))
        yield state.marginals
        yield state.values
        yield state.draw(3000, rng)
    yield state.parities()


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_no_outcome_depends_on_the_number_of_cores(on, dtype):
    found = []
    for number in (1, 2, 5):
        on(number)
        found.append([*outcomes(dtype)])
    for other in found[1:]:
        for one, two in zip(found[0], other, strict=True):
            np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("cores", [1, 2])
def test_items_that_are_made_ahead_come_in_order_and_with_their_error(on, cores):
    on(cores)
    made, closed = [], False

    def items():
        nonlocal closed
        try:
            for number in range(4):
                made.append(threading.current_thread() is threading.main_thread())
                yield number
            raise LookupError
        finally:
            closed = True

    coming = parallel.ahead(items())
    assert [next(coming) for _ in range(4)] == [0, 1, 2, 3]
    with pytest.raises(LookupError):
        next(coming)
    assert closed
    assert made == [cores == 1] * 4
    early = parallel.ahead(items())
    assert next(early) == 0
    early.close()
    assert len(made) <= 6  # and no more than one beyond the one that was taken


@pytest.mark.parametrize("cores", [1, 2])
def test_work_that_is_begun_is_waited_for_and_its_error_comes_then(on, cores):
    on(cores)
    finished = parallel.begun(lambda: threading.current_thread() is threading.main_thread())
    assert [finished(), finished()] == [cores == 1] * 2
    with pytest.raises(LookupError):
        parallel.begun([].pop)() if cores == 2 else parallel.begun([].pop)


def blas_threads():
    """How many threads each library of linear algebra takes now."""
    return [found["num_threads"] for found in ThreadpoolController().info() if found["user_api"] == "blas"]


def test_linear_algebra_takes_one_thread_also_where_one_fit_makes_another():
    with ThreadpoolController().limit(limits=2, user_api="blas"):
        before = blas_threads()
        assert before
        assert max(before) > 1
        with parallel.one_thread():
            with parallel.one_thread():
                assert {*blas_threads()} == {1}
            assert {*blas_threads()} == {1}
        assert blas_threads() == before


def test_linear_algebra_gets_its_threads_back_after_an_error():
    with ThreadpoolController().limit(limits=2, user_api="blas"):
        before = blas_threads()
        with pytest.raises(ZeroDivisionError), parallel.one_thread():
            1 / 0  # noqa: B018
        assert blas_threads() == before


def test_linear_algebra_gets_its_threads_back_from_threads_that_overlap():
    """The first that came in is the first that is out, while the second is still inside."""
    with ThreadpoolController().limit(limits=2, user_api="blas"):
        before = blas_threads()
        first, second = parallel.one_thread(), parallel.one_thread()
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        assert {*blas_threads()} == {1}
        second.__exit__(None, None, None)
        assert blas_threads() == before
