"""Small work in as many pieces, and on as many threads, as large work is elsewhere: the results must not tell."""

from contextlib import contextmanager

import pytest

from qrelease._util import parallel


@contextmanager
def cut_from(cells, cores=None):
    """Passes over so many cells, or more, are cut into pieces; on so many threads, else on those there are."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parallel, "MIN_PARALLEL_CELLS", cells)
        if cores is not None:
            patch.setattr(parallel, "cores", lambda: cores)
        parallel.pool.cache_clear()
        yield
    parallel.pool.cache_clear()
