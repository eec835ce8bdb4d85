"""A studio as a process: a socket on this machine, an address with a token, and a browser."""

from __future__ import annotations

import asyncio
import logging
import os
import webbrowser
from contextlib import ExitStack, suppress
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from qrelease._util.owner_only import new_for_owner
from qrelease.apps.server.processes import listen
from qrelease.errors import InvalidInput

if TYPE_CHECKING:
    from qrelease.apps.studio.terms import Program

HOST = "127.0.0.1"
"""The only address that a studio is served at."""

_PAGE = """\
<!DOCTYPE html>
<meta charset="utf-8">
<meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0; url={0}">
<title>qrelease studio</title>
<a href="{0}">qrelease studio</a>
"""


def run(folder: Path, program: Program, port: int, *, browser: bool) -> None:
    """Serve a studio until told to stop; a release that was begun is finished first.

    program  the command line
    port     0 for any that is free
    browser  whether one is opened
    """
    if not all(find_spec(name) for name in ("starlette", "uvicorn", "h11")):
        raise InvalidInput("the studio needs starlette and uvicorn: pip install 'qrelease[server]'")
    if not folder.is_dir():
        raise InvalidInput(f"there is no folder {folder}")
    from qrelease.apps.server.http_bounds import BoundedServer, configured
    from qrelease.apps.studio.app import Studio, application
    from qrelease.apps.studio.guard import new_token

    logging.basicConfig(format="%(asctime)s %(name)s: %(message)s", level=logging.WARNING)
    token, studio = new_token(), Studio(folder, program)
    with listen(HOST, port) as listening, ExitStack() as until_end:
        at = listening.getsockname()[1]
        address = f"http://{HOST}:{at}/{token}/"
        print(
            f"The studio is at\n\n    {address}\n\nfor who has this address, on this machine alone. It ends with"
            " Ctrl-C.",
            flush=True,
        )
        if browser:
            webbrowser.open(way_in(address, Path(until_end.enter_context(TemporaryDirectory()))).as_uri())
        serving = BoundedServer(configured(application(studio, token, at), 1))
        with suppress(KeyboardInterrupt):  # which it raises once more when it has ended
            asyncio.run(serving.serve(sockets=[listening]))
    studio.maker.wait()


def way_in(address: str, folder: Path) -> Path:
    """A page in a folder that leads to the address, which only its owner may read.

    A browser is told of this page, and not of the address: all users of a machine see with which arguments a program
    was started.
    """
    page = folder / "studio.html"
    with os.fdopen(new_for_owner(page), "w", encoding="utf-8") as out:
        out.write(_PAGE.format(address))
    return page
