"""Records in object stores and on web servers, by their URL: s3://, gs://, https:// and http://.

pyarrow's own file systems read a store, a few megabytes at a time. A web server gives a file from its start alone, so
it is copied to a temporary file without a name first. Either way what is read is of one state: an object that was
changed meanwhile is refused, and so is a file that came short.

A URL may hold a user, a password or a signature. These go to the server and nowhere else: `StoredObject.name`, which
messages and files have, is the URL without them.
"""

from __future__ import annotations

import io
import re
import threading
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Final, cast, final
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlsplit

from qrelease.errors import InvalidInput

if TYPE_CHECKING:
    from qrelease.data.sources.encoding import Piece, Reader, TypedReader

STORES: Final = ("s3", "gs")

WEB: Final = ("https", "http")

_KNOWN: Final = "s3://, gs://, https://, http:// and file://"

_PLAIN_OPTIONS: Final = frozenset({"region", "scheme", "endpoint_override", "project_id", "retry_limit_seconds"})
"""Of a store's URL, after the question mark: what is not secret."""

_SHORTEST_SECRET: Final = 8
"""Characters from which on a value after the question mark may be a signature."""

_BLOCK: Final = 1 << 20
"""Bytes that are copied at a time."""

_WAIT: Final = 60
"""Seconds that a server may be silent."""

_ERRORS: Final = (OSError, ValueError, NotImplementedError, KeyError)
"""What pyarrow's file systems raise."""


def is_url(place: object) -> bool:
    """Whether a place is an address with a scheme, one that is not known here included; no path is."""
    return isinstance(place, str) and re.match(r"\s*[a-z][a-z0-9+.-]*://", place, re.IGNORECASE) is not None


def local_file(url: str) -> Path | None:
    """The file that a URL file:// names; None for another one."""
    parts = _split(url)
    if parts.scheme != "file":
        return None
    if parts.netloc not in ("", "localhost"):
        raise InvalidInput("a file:// URL names a file of this machine: file:///folder/people.csv")
    from urllib.request import url2pathname

    return Path(url2pathname(parts.path))


def public_name(url: str) -> str:
    """A URL without the user, the password and what stands after a question mark.

    Raises `InvalidInput`, which repeats nothing of it, for a URL of which it is not sure where these are.
    """
    parts = _split(url)
    return f"{parts.scheme}://{_host(parts)}{parts.path}"


def is_many(url: str) -> bool:
    """Whether a URL stands for several objects: its path has a star."""
    return "*" in _split(url).path


def found_objects(url: str) -> list[StoredObject]:
    """The object that a URL names, or all objects of a pattern, by their names.

    Raises `InvalidInput`, one line without credentials, where there is none or the server gives none.
    """
    parts, name = _split(url), public_name(url)
    told = _Told(parts)
    if parts.scheme in STORES:
        return _in_store(parts, told)
    if is_many(url):
        raise InvalidInput(f"{name}: a web server does not say which files it has: name each of them")
    return [_of_web(parts, name, told)]


def places_at(url: str) -> list[str]:
    """The names of what a URL stands for; the URL's own where nobody says."""
    parts = _split(url)
    if parts.scheme in STORES and is_many(url):
        with suppress(InvalidInput):  # who opens it is told
            return [str(stored) for stored in _in_store(parts, _Told(parts))]
    return [public_name(url)]


def urls_at(url: str) -> list[str]:
    """A URL, or that of each object of a pattern, with the same credentials. Private.

    Raises `InvalidInput`, one line without credentials, where there is none or the server gives none.
    """
    if not is_many(url):
        return [url]
    parts = _split(url)
    start = len(f"{parts.scheme}://{_host(parts)}")
    return [parts._replace(path=quote(str(stored)[start:])).geturl() for stored in found_objects(url)]


@final
class StoredObject:
    """An object that is read as a file is, from wherever it is kept.

    name     what errors call it
    size     its bytes
    opened   gives its bytes from the start, a seekable raw stream
    stamp    says which state of it there is now
    """

    def __init__(
        self,
        name: str,
        size: int,
        opened: Callable[[], io.RawIOBase],
        stamp: Callable[[], object],
    ) -> None:
        self.url, self.size = name, size
        self.name = PurePosixPath(name).name
        self.suffix = PurePosixPath(name).suffix
        self._opened, self._stamp = opened, stamp
        self._state: object = None

    def __str__(self) -> str:
        return self.url

    __repr__ = __str__

    def open(self) -> io.RawIOBase:
        """Its bytes. Raises `OSError`, without credentials."""
        if self._state is None:
            self._state = self._stamp()
        return self._opened()

    def check_unchanged(self) -> None:
        """Raise `InvalidInput` where it has become another one since it was first opened."""
        try:
            unchanged = self._stamp() == self._state
        except OSError as error:
            raise InvalidInput(f"{self} cannot be read: {error}") from None
        if not unchanged:
            raise InvalidInput(f"{self} was written while it was read: read it when nobody writes")


@final
class Address(str):
    """The public name of many objects."""

    __slots__ = ()

    @property
    def name(self) -> str:
        """What stands last in it."""
        return PurePosixPath(self).name


Place = Path | StoredObject
"""Where the records of a reader are: in a file, or in an object of a store."""


def placed(path: Any) -> Place:
    """A path, or an object as it is."""
    return path if isinstance(path, StoredObject) else Path(path)


def files_at(place: Place) -> tuple[Path, ...]:
    """The files of this machine among a place."""
    return () if isinstance(place, StoredObject) else (place,)


@contextmanager
def as_source(place: Place) -> Iterator[Any]:
    """What pyarrow opens: a path as it is, and the bytes of an object."""
    if isinstance(place, StoredObject):
        with closing(place.open()) as raw:
            yield raw
    else:
        yield place


@final
class UnchangedReader:
    """The reader of an object, which refuses one that was changed while it was read."""

    def __init__(self, reader: Reader, stored: StoredObject) -> None:
        self._reader, self._stored = reader, stored
        self.path: Place = stored
        self.files: tuple[Path, ...] = ()
        self.keyed, self.private_size, self.header = reader.keyed, reader.private_size, reader.header

    def check_header(self, known: Collection[str] = ()) -> None:
        """Raise what the reader raises."""
        self._reader.check_header(known)

    def pieces(self, columns: Sequence[str]) -> Iterator[Piece]:
        """All records, in order."""
        yield from self._reader.pieces(columns)
        self._stored.check_unchanged()

    def texts(self) -> Iterator[Iterable[Iterable[str]]]:
        """All columns of some records as texts."""
        yield from self._reader.texts()
        self._stored.check_unchanged()

    def arrow_types(self) -> dict[str, list[Any]]:
        """The types of the columns."""
        return cast("TypedReader", self._reader).arrow_types()


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url.strip())
        host, port = parts.hostname, parts.port
    except ValueError:
        raise InvalidInput(_unsure()) from None
    if parts.scheme == "file":
        return parts
    if parts.scheme not in (*STORES, *WEB):
        raise InvalidInput(f"records at a URL are read from {_KNOWN}, not {parts.scheme}://")
    # A slash in a password that is not written %2F would make the rest of it part of the path.
    if not host or (port is not None and (parts.scheme in STORES or "@" in parts.path)):
        raise InvalidInput(_unsure())
    return parts


def _unsure() -> str:
    return (
        "the URL of the records is not as s3://bucket/people.parquet or https://host/people.csv; / ? # and @ in a"
        " password are written %2F %3F %23 and %40"
    )


def _host(parts: SplitResult) -> str:
    return parts.netloc.rpartition("@")[2]


@final
class _Told:
    """Errors in words, without what is secret of a URL."""

    def __init__(self, parts: SplitResult) -> None:
        values = [value for key, value in parse_qsl(parts.query) if key not in _PLAIN_OPTIONS]
        secrets = [value for value in values if len(value) >= _SHORTEST_SECRET]
        secrets += [parts.password or "", (parts.username or "") if parts.scheme in STORES else ""]
        self._secrets = sorted({s for each in secrets for s in (each, unquote(each), quote(each)) if s}, key=len)

    def __call__(self, error: BaseException) -> str:
        """One line of an error."""
        text = " ".join(str(error).split())
        if isinstance(error, OSError) and error.strerror:
            text = error.strerror
        if isinstance(error, FileNotFoundError) or "NOT_FOUND" in text or "NO_SUCH_" in text:
            return "there is no such object"
        refused = ("ACCESS_DENIED", "INVALID_ACCESS_KEY", "SIGNATURE_DOES_NOT_MATCH", "status 401", "status 403")
        if any(word.lower() in text.lower() for word in (*refused, "INVALID_CLIENT_TOKEN", "UNAUTHENTICATED")):
            return (
                "the store refuses access: its credentials are taken from where its own tools have them"
                " (AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, ~/.aws, GOOGLE_APPLICATION_CREDENTIALS)"
            )
        if "OAuth2 access token" in text:
            return (
                "no credentials for Google's stores were found, or they were not accepted:"
                " GOOGLE_APPLICATION_CREDENTIALS names a file of them, `gcloud auth application-default login` makes"
                " one; a bucket that is open to all is gs://anonymous@bucket/…"
            )
        # Google's library tells the same thing in several layers: the innermost is of use.
        text = text.rpartition("with a last message of ")[2].partition(" error_info=")[0]
        for secret in reversed(self._secrets):
            text = text.replace(secret, "***")
        return text or type(error).__name__


def _store_errors() -> tuple[type[Exception], ...]:
    """What pyarrow's file systems raise; Google's has some that are of no class of Python's."""
    from pyarrow import ArrowException

    return (*_ERRORS, ArrowException)


@final
class _Raw(io.RawIOBase):
    """A seekable stream whose errors are OSErrors without credentials.

    stream  pyarrow's
    """

    def __init__(self, stream: Any, told: Callable[[BaseException], str]) -> None:
        self._stream, self._told = stream, told

    def readable(self) -> bool:
        """It is to be read."""
        return True

    def seekable(self) -> bool:
        """From any place."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer, as far as there are bytes."""
        try:
            return int(self._stream.readinto(buffer))
        except _store_errors() as error:
            raise OSError(self._told(error)) from None

    def seek(self, offset: int, whence: int = 0) -> int:
        """Go on from there."""
        self._stream.seek(offset, whence)
        return self.tell()

    def tell(self) -> int:
        """Where it is."""
        return int(self._stream.tell())

    def close(self) -> None:
        """The server need keep nothing for it."""
        if not self.closed:
            self._stream.close()
        super().close()


def _in_store(parts: SplitResult, told: _Told) -> list[StoredObject]:
    """The objects that a URL of a store names."""
    name = f"{parts.scheme}://{_host(parts)}{parts.path}"
    try:
        from pyarrow import fs
    except ImportError:
        raise InvalidInput(f"{name}: an object store needs pyarrow: pip install 'qrelease[parquet]'") from None
    path, many = unquote(parts.path), "*" in parts.path  # a star that is written %2A is one of the object's name
    before = path[: path.rindex("/", 0, path.index("*"))] if many else path
    options = parts.query
    if parts.scheme == "gs" and "retry_limit_seconds" not in options:  # it would go on for a quarter of an hour
        options = f"{options}&retry_limit_seconds={_WAIT}".lstrip("&")
    address = f"{parts.scheme}://{parts.netloc}{quote(before)}{f'?{options}' * bool(options)}"
    bucket = unquote(_host(parts))
    try:
        system, place = fs.FileSystem.from_uri(address)
        if not many:
            infos = [system.get_file_info(place)]
        else:
            whole = _pattern(bucket + path)
            selector = fs.FileSelector(place, allow_not_found=True, recursive=True)
            infos = [
                info
                for info in sorted(system.get_file_info(selector), key=lambda info: info.path)
                if info.type == fs.FileType.File and whole.fullmatch(info.path)
            ]
    except _store_errors() as error:
        raise InvalidInput(f"{name} cannot be read: {told(error)}") from None
    if not infos:
        raise InvalidInput(f"no object has a name like {name}")
    if infos[0].type != fs.FileType.File:
        folder = "it is a folder: name its objects by a pattern, such as *.parquet"
        missing = infos[0].type == fs.FileType.NotFound
        raise InvalidInput(f"{name} cannot be read: {'there is no such object' if missing else folder}")

    def stored(path: str, size: int) -> StoredObject:
        def opened() -> io.RawIOBase:
            try:
                return _Raw(system.open_input_file(path), told)
            except _store_errors() as error:
                raise OSError(told(error)) from None

        def stamp() -> object:
            try:
                info = system.get_file_info(path)
                with system.open_input_stream(path) as stream:
                    marks = stream.metadata() or {}
            except _store_errors() as error:
                raise OSError(told(error)) from None
            return info.size, info.mtime_ns, sorted(marks.items())  # its ETag among them

        return StoredObject(f"{parts.scheme}://{path}", size, opened, stamp)

    return [stored(info.path, info.size) for info in infos]


def _pattern(path: str) -> re.Pattern[str]:
    """What matches a path with stars: two of them also many folders, or none."""
    spelled = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*"}
    return re.compile("".join(spelled.get(part) or re.escape(part) for part in re.split(r"(\*\*/|\*\*|\*)", path)))


@final
class _Copy(io.RawIOBase):
    """A view of a temporary file, which several read at once."""

    def __init__(self, file: Any, lock: threading.Lock) -> None:
        self._file, self._lock, self._at = file, lock, 0

    def readable(self) -> bool:
        """It is to be read."""
        return True

    def seekable(self) -> bool:
        """From any place."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer, as far as there are bytes."""
        with self._lock:
            self._file.seek(self._at)
            count = int(self._file.readinto(buffer))
        self._at += count
        return count

    def seek(self, offset: int, whence: int = 0) -> int:
        """Go on from there."""
        with self._lock:
            base = (
                0 if whence == io.SEEK_SET else self._at if whence == io.SEEK_CUR else self._file.seek(0, io.SEEK_END)
            )
        self._at = base + offset
        return self._at

    def tell(self) -> int:
        """Where it is."""
        return self._at


def _of_web(parts: SplitResult, name: str, told: _Told) -> StoredObject:
    """The file of a web server, copied to a temporary file without a name."""
    from http.client import HTTPException
    from tempfile import TemporaryFile

    from qrelease._util.temporary import check_disk, told_of_full_disk

    with ExitStack() as stack:
        file, size = stack.enter_context(TemporaryFile(buffering=0)), 0
        try:
            with told_of_full_disk(), closing(_answered(parts)) as answer:
                length = _length(answer, name)
                if length is not None:
                    check_disk(length)
                while block := answer.read(_BLOCK):
                    file.write(block)
                    size += len(block)
        except (HTTPException, OSError, ValueError) as error:
            raise InvalidInput(f"{name} cannot be read: {_web_error(error, told)}") from None
        if length is not None and size != length:
            raise InvalidInput(f"{name} cannot be read: the server ended after {size:,} of {length:,} bytes")
        stack.pop_all()
    lock = threading.Lock()
    found = StoredObject(name, size, lambda: _Copy(file, lock), lambda: None)
    weakref.finalize(found, file.close)
    return found


def _length(answer: Any, name: str) -> int | None:
    """How long a web server says that its file is; None where it says so at the end."""
    headers = answer.headers
    packed = headers.get("Content-Encoding", "identity")
    if packed != "identity" and PurePosixPath(name).suffix not in (".gz", ".xz", ".bz2"):
        raise InvalidInput(f"{name} cannot be read: the server sends it packed, which it was asked not to")
    if headers.get("Content-Length") is not None:
        return int(headers["Content-Length"])
    if headers.get("Transfer-Encoding") is None:  # a server that hangs up early would leave records out
        raise InvalidInput(f"{name} cannot be read: the server does not say how long it is")
    return None


def _web_error(error: BaseException, told: _Told) -> str:
    """Why a web server gave no file."""
    from http.client import InvalidURL
    from urllib.error import HTTPError, URLError

    if isinstance(error, HTTPError):
        error.close()
        return _refusal(error.code)
    if isinstance(error, InvalidURL | UnicodeError):  # they repeat what was asked for
        return "its URL is not well formed"
    reason = error.reason if isinstance(error, URLError) else error
    return told(reason if isinstance(reason, BaseException) else error)


def _refusal(code: int) -> str:
    if code in (401, 403):
        return f"the server refuses access ({code}): there are no credentials, or others, or a signature is out of date"
    return "there is no such file on the server" if code in (404, 410) else f"the server answers with an error ({code})"


def _answered(parts: SplitResult) -> Any:
    """What a web server answers; errors of it name nothing of the URL but what they were given."""
    from base64 import b64encode
    from urllib import request

    class Redirects(request.HTTPRedirectHandler):
        """None that would send over the net in clear what was asked for by https."""

        def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
            """The next request."""
            if req.type == "https" and not newurl.lower().startswith("https:"):
                fp.close()
                raise OSError("the server leads from https to an address without encryption")
            return super().redirect_request(req, fp, code, msg, headers, newurl)

    path = quote(parts.path, safe="/%:@!$&'()*+,;=~") or "/"
    address = f"{parts.scheme}://{_host(parts)}{path}{f'?{parts.query}' * bool(parts.query)}"
    asked = request.Request(address, headers={"User-Agent": "qrelease", "Accept-Encoding": "identity"})  # noqa: S310
    if parts.username is not None:
        given = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        asked.add_unredirected_header("Authorization", f"Basic {b64encode(given.encode()).decode()}")
    opener = request.OpenerDirector()  # of these alone: none follows an answer to a file or to ftp
    for handler in (
        *(request.ProxyHandler, request.HTTPHandler, request.HTTPSHandler, request.HTTPDefaultErrorHandler),
        *(Redirects, request.HTTPErrorProcessor),
    ):
        opener.add_handler(handler())
    return opener.open(asked, timeout=_WAIT)
