"""What the files of a release are: `SHA256SUMS`, as `sha256sum -c` reads it, the holder's signature, and the id.

The id names what was given away. It is the SHA-256 of all that the manifest says but the synopsis, which follows from
it, and of the noisy answers. `SHA256SUMS` names every file, the manifest among them. `SHA256SUMS.sig` is an Ed25519
signature (RFC 8032) of the bytes of that file, 64 bytes, where the holder of the data signed the release; with
OpenSSL it is checked by

    openssl pkeyutl -verify -pubin -inkey holder.pub -rawin -in SHA256SUMS -sigfile SHA256SUMS.sig

Hashes alone tell damage and clumsy hands: who rewrites a whole release rewrites its hashes too. Against that are the
signature, and the entry of the ledger, which names the id and the hashes.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qrelease._util.typing import Floats
from qrelease.errors import InvalidInput

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

SUMS = "SHA256SUMS"

SIGNATURE = "SHA256SUMS.sig"

_LINE = re.compile(r"([0-9a-f]{64}) [ *]([^/\\\0\n]+)")

_APART = ("format", "id", "synopsis", "arrays", "values")
"""Fields of a manifest that are not in the id: they say how it is stored, or follow from the others."""


def release_id(content: Mapping[str, Any], values: Iterable[Floats]) -> str:
    """The id of a release, 64 hexadecimal digits.

    Parameters
    ----------
    content
        The manifest as JSON has it.
    values
        The noisy answers of each measurement, in order.
    """
    kept = {name: part for name, part in content.items() if name not in _APART}
    kept["measurements"] = [{k: v for k, v in m.items() if k != "values"} for m in content["measurements"]]
    found = hashlib.sha256(json.dumps(kept, sort_keys=True, allow_nan=False).encode())
    for part in values:
        found.update(part.astype("<f8", copy=False).tobytes())
    return found.hexdigest()


def file_digest(file: Path) -> str:
    """The SHA-256 of a file; `FileNotFoundError` where there is none, or what has no end, such as a pipe."""
    if not file.is_file():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(file))
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def write_hashes(folder: Path) -> dict[str, str]:
    """Name every file of a folder; returns their hashes by name."""
    found = {
        file.name: file_digest(file)
        for file in sorted(folder.iterdir())
        if file.is_file() and file.name not in (SUMS, SIGNATURE)
    }
    lines = "".join(f"{value}  {name}\n" for name, value in found.items())
    (folder / SUMS).write_text(lines, encoding="utf-8", newline="")
    return found


def read_hashes(folder: Path) -> dict[str, str] | None:
    """The hashes of the files by name; None where there is no `SHA256SUMS`, as in a release of an earlier version."""
    file = folder / SUMS
    if not file.exists():
        return None
    if not file.is_file():
        raise InvalidInput(f"{file} is no file")
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        raise InvalidInput(f"{file} cannot be read") from None
    found = [_LINE.fullmatch(line) for line in lines]
    if not all(found):
        raise InvalidInput(f"{file} must have lines of a SHA-256, two spaces and a name")
    named = {m[2]: m[1] for m in found if m}
    if len(named) < len(lines):
        raise InvalidInput(f"{file} names a file twice")
    return named


def differences(folder: Path, sums: Mapping[str, str]) -> list[str]:
    """What contradicts the hashes, a phrase for each file; empty where nothing does."""
    found = []
    for name, value in sums.items():
        try:
            same = file_digest(folder / name) == value
        except OSError:
            found.append(f"{name} is missing")
            continue
        if not same:
            found.append(f"{name} is not what it was when the release was made")
    return found


def new_key(path: Path) -> tuple[Path, Path]:
    """Make a key to sign releases with: the private one in `NAME.key`, the public one in `NAME.pub`, both PEM.

    Raises `InvalidInput` where one of them is there already: a key that is lost cannot be made again.
    """
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    private, public = path.with_name(f"{path.name}.key"), path.with_name(f"{path.name}.pub")
    for file in (private, public):
        if file.exists():
            raise InvalidInput(f"{file} exists already, and no key is overwritten")
    key = Ed25519PrivateKey.generate()
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    shown = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    for file, content, mode in ((private, secret, 0o600), (public, shown, 0o644)):
        with os.fdopen(os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode), "wb") as out:
            out.write(content)
    return private, public


def private_key(file: Path) -> Ed25519PrivateKey:
    """The key that `new_key` made; `InvalidInput` for a file that holds none."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    content = _content(file)
    with contextlib.suppress(ValueError, TypeError, UnsupportedAlgorithm):
        key = load_pem_private_key(content, None)
        if isinstance(key, Ed25519PrivateKey):
            return key
    raise InvalidInput(f"{file} holds no private Ed25519 key without a password, as `qrelease key` makes one")


def public_key(file: Path) -> Ed25519PublicKey:
    """The public part of a key; `InvalidInput` for a file that holds none."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    content = _content(file)
    with contextlib.suppress(ValueError, UnsupportedAlgorithm):
        key = load_pem_public_key(content)
        if isinstance(key, Ed25519PublicKey):
            return key
    raise InvalidInput(f"{file} holds no public Ed25519 key: it is the file NAME.pub that `qrelease key NAME` makes")


def _content(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise InvalidInput(f"{file} cannot be read: {error.strerror}") from None


def sign(folder: Path, key: Ed25519PrivateKey) -> None:
    """Sign the hashes of a folder."""
    (folder / SIGNATURE).write_bytes(key.sign((folder / SUMS).read_bytes()))


def signed_by(folder: Path, key: Ed25519PublicKey) -> bool:
    """Whether the hashes of a folder are signed by this key; False where they are not signed."""
    from cryptography.exceptions import InvalidSignature

    if not (folder / SIGNATURE).is_file():
        return False
    try:
        key.verify((folder / SIGNATURE).read_bytes(), (folder / SUMS).read_bytes())
    except (OSError, InvalidSignature):
        return False
    return True
