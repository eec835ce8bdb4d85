"""What the package raises for a caller's mistake: one line that says what, got and allowed."""


class QReleaseError(Exception):
    """Base of every error that the caller can mend; the command line prints it as one line and exits with 2.

    Examples
    --------
    >>> import qrelease as qr
    >>> issubclass(qr.LedgerError, qr.QReleaseError), issubclass(qr.RowsChangedWarning, qr.QReleaseError)
    (True, False)
    """


class InvalidInput(QReleaseError, ValueError):  # noqa: N818  the name reads as the message does
    """An argument, a schema, a file or a value is not valid; the message says what is allowed.

    Examples
    --------
    >>> import qrelease as qr
    >>> qr.PureDP(0)
    Traceback (most recent call last):
    ...
    qrelease.errors.InvalidInput: epsilon must be positive, got 0
    """


class UnusableResult(InvalidInput):
    """A mechanism of one's own returned what no release can be made of, after the charge.

    What it returned is kept in the error, unchecked, so that measurements that were paid for are not lost: another
    synopsis can be made of them, by `fitted` for one. Of all that it is, only what `private.measure` and the other
    draws gave was paid for. What a mechanism took from `private.exact` is as private as the records.

    Parameters
    ----------
    message : str
        One line, with the remedy.
    returned : object
        What the mechanism returned: mostly a `MechanismResult`, with its synopsis and measurements.

    Examples
    --------
    >>> import qrelease as qr
    >>> issubclass(qr.UnusableResult, qr.InvalidInput), qr.UnusableResult("no synopsis", [3]).returned
    (True, [3])
    """

    def __init__(self, message: str, returned: object = None) -> None:
        super().__init__(message)
        self.returned = returned


class TooLarge(QReleaseError):  # noqa: N818
    """The work would never fit (memory, cells, nodes); raised before anything is allocated or charged.

    It follows from public sizes and from the limits of the machine alone, so it may decide what is in a release.

    Examples
    --------
    >>> import qrelease as qr
    >>> wide = qr.Domain.coded({f"column {i}": 10 for i in range(20)})
    >>> qr.check_fitted(qr.Workload.marginals(wide, 1))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    qrelease.errors.TooLarge: the universe has about 2^66 cells and a histogram holds at most 268,435,456; ...
    """


class OutOfMemory(QReleaseError, MemoryError):  # noqa: N818
    """The work does not fit in the memory that is free now: for the data holder's eyes alone.

    A private table takes memory, record for record. So this is no `TooLarge`, which may decide what is in a release.
    Nothing but the end of the work may come of it.

    Examples
    --------
    >>> import qrelease as qr
    >>> issubclass(qr.OutOfMemory, MemoryError), issubclass(qr.OutOfMemory, qr.TooLarge)
    (True, False)
    """


class BudgetExceeded(QReleaseError):  # noqa: N818
    """The privacy budget does not cover the request; the message names total, spent and requested.

    Parameters
    ----------
    message : str
        One line, with what the owner of the budget can do.
    facts : str
        The message without that, for somebody else; empty where there is no other.

    Examples
    --------
    >>> import qrelease as qr
    >>> qr.Ledger.open(None, qr.PureDP(1)).charge(qr.PureDP(2), "all pairs")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    qrelease.errors.BudgetExceeded: budget exceeded: total epsilon=1; spent epsilon=0; requested epsilon=2 ...
    """

    def __init__(self, message: str, facts: str = "") -> None:
        super().__init__(message)
        self.facts = facts


class LedgerError(QReleaseError):
    """The ledger is missing, foreign, corrupt, out of reach, or belongs to another dataset or neighbouring relation.

    Examples
    --------
    >>> import qrelease as qr
    >>> qr.Ledger.open("nowhere.ledger")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    qrelease.errors.LedgerError: ledger nowhere.ledger is new and needs a total, such as ...
    """


class OutcomeUnknown(LedgerError):  # noqa: N818
    """Whether a charge is in a ledger on a server could not be learned, so it counts as spent.

    Nothing was drawn for it, and nothing of what was drawn in its transaction is shown. Once the server is back, the
    same key finds what is there.
    """


class StreamHalted(QReleaseError):  # noqa: N818
    """A stream of queries was asked after its last positive answer, or in a process that did not open it."""


class ServiceError(QReleaseError):
    """A service (`qr.connect`) cannot be reached, rejects the token, is too busy, or does not run this package.

    Parameters
    ----------
    message : str
        One line, in the service's own words where it said any.
    status : int, optional
        The HTTP status; None where no answer came.
    key : str, optional
        Under which the questions were asked: asked again under it they are answered, and paid for once.

    Examples
    --------
    >>> import qrelease as qr
    >>> qr.ServiceError("not now; ask again, under the same key", 503, "monday").key
    'monday'
    """

    def __init__(self, message: str, status: int | None = None, key: str | None = None) -> None:
        super().__init__(message)
        self.status, self.key = status, key


class RowsChangedWarning(UserWarning):
    """The records have changed since an earlier charge to the same ledger. Right if they were updated, else a mistake.

    It is for the data holder's eyes: it tells that something changed.

    Examples
    --------
    >>> import qrelease as qr
    >>> issubclass(qr.RowsChangedWarning, UserWarning)
    True
    """


class WeakCostWarning(UserWarning):
    """A cost with an epsilon above 20, which promises next to nothing, is about to be charged to a ledger that is kept.

    Who means it can silence it by `warnings.simplefilter("ignore", qr.WeakCostWarning)`; the command line asks for
    `--weak`.

    Examples
    --------
    >>> import qrelease as qr
    >>> issubclass(qr.WeakCostWarning, UserWarning)
    True
    """


class ModelAloneWarning(UserWarning):
    """Some answers about numbers are the model's alone: they have no interval, and may be far off.

    The message says which of the columns are independent of each other in the model, as they were not counted together,
    and how a release measures what is asked. It follows from the release, and so is public.

    Examples
    --------
    >>> import qrelease as qr
    >>> issubclass(qr.ModelAloneWarning, UserWarning)
    True
    """
