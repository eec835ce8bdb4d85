"""The files of a release: their hashes as other tools read them, who signed them, and what the id names."""

import base64
import hashlib
import shutil
import subprocess

import numpy as np
import pytest

from qrelease.errors import InvalidInput
from qrelease.release import checksums

CONTENT = {
    "format": 3,
    "id": "to be found",
    "synopsis": {"total": 7.0},
    "arrays": "measurements.npy",
    "dataset": "people",
    "measurements": [{"columns": ["a"], "noise": {"scale": 2.0}, "values": [1.0, 2.0]}],
}
VALUES = [np.array([1.0, 2.0])]


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "out"
    made.mkdir()
    (made / "release.json").write_bytes(b"{}")
    (made / "answers.csv").write_bytes(bytes(range(256)) * 5000)
    (made / "a folder").mkdir()
    return made


def test_every_file_is_named_with_its_hash_and_a_change_is_told(folder):
    found = checksums.write_hashes(folder)
    assert found == {
        file: hashlib.sha256((folder / file).read_bytes()).hexdigest() for file in ("answers.csv", "release.json")
    }
    assert checksums.read_hashes(folder) == found
    assert checksums.differences(folder, found) == []
    (folder / "release.json").write_bytes(b"{} ")
    (folder / "answers.csv").unlink()
    assert checksums.differences(folder, found) == [
        "answers.csv is missing",
        "release.json is not what it was when the release was made",
    ]
    (folder / "more.csv").write_text("")  # what is not named is no difference
    assert len(checksums.differences(folder, found)) == 2
    again = checksums.write_hashes(folder)  # neither its own file nor the signature is named
    assert set(again) == {"release.json", "more.csv"}


@pytest.mark.parametrize("command", ["sha256sum -c SHA256SUMS", "shasum -a 256 -c SHA256SUMS"])
def test_other_tools_check_the_hashes(command, folder):
    words = command.split()
    if shutil.which(words[0]) is None:
        pytest.skip(f"there is no {words[0]}")
    checksums.write_hashes(folder)
    assert subprocess.run(words, cwd=folder, capture_output=True, check=False).returncode == 0
    (folder / "release.json").write_bytes(b"[]")
    assert subprocess.run(words, cwd=folder, capture_output=True, check=False).returncode != 0


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nonsense\n",
        f"{'0' * 63}  release.json\n",
        f"{'0' * 64} release.json\n",
        f"{'A' * 64}  release.json\n",
        f"{'0' * 64}  ../up\n",
        f"{'0' * 64}  a/b\n",
        f"{'0' * 64}  release.json\n\n{'0' * 64}  x\n",
    ],
)
def test_lines_that_are_none_are_refused(text, folder):
    assert checksums.read_hashes(folder) is None  # there are none
    (folder / "SHA256SUMS").write_text(text)
    if not text:
        assert checksums.read_hashes(folder) == {}
        return
    with pytest.raises(InvalidInput, match="must have lines of a SHA-256"):
        checksums.read_hashes(folder)


def test_hashes_that_are_no_text_are_refused(folder):
    (folder / "SHA256SUMS").write_bytes(b"\xff\xfe")
    with pytest.raises(InvalidInput, match="SHA256SUMS cannot be read"):
        checksums.read_hashes(folder)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"dataset": "others"}, True),
        ({"more": 1}, True),
        ({"measurements": [{"columns": ["a"], "noise": {"scale": 3.0}, "values": [1.0, 2.0]}]}, True),
        ({"measurements": [{"columns": ["a"], "noise": {"scale": 2.0}, "values": "apart"}]}, False),
        ({"format": 4, "id": "x", "synopsis": {}, "arrays": None}, False),
    ],
    ids=str,
)
def test_the_id_names_what_was_given_away_and_not_how_it_is_stored(change, named):
    before = checksums.release_id(CONTENT, VALUES)
    assert len(before) == 64
    assert (checksums.release_id({**CONTENT, **change}, VALUES) != before) == named


def test_the_id_names_every_noisy_answer_and_no_order_of_fields():
    before = checksums.release_id(CONTENT, VALUES)
    assert checksums.release_id(CONTENT, [np.array([1.0, np.nextafter(2.0, 3)])]) != before
    assert checksums.release_id(dict(reversed(CONTENT.items())), VALUES) == before
    assert checksums.release_id(CONTENT, [np.array([1.0, 2.0], ">f8")]) == before
    with pytest.raises(ValueError, match="JSON"):
        checksums.release_id({**CONTENT, "x": float("nan")}, VALUES)


def test_who_has_the_key_signs_and_a_change_or_another_key_is_found(folder, tmp_path):
    private, public = checksums.new_key(tmp_path / "holder")
    assert (private.name, public.name) == ("holder.key", "holder.pub")
    assert private.stat().st_mode & 0o077 == 0
    _, stranger = checksums.new_key(tmp_path / "stranger")
    checksums.write_hashes(folder)
    key = checksums.public_key(public)
    assert not checksums.signed_by(folder, key)  # it is not signed
    checksums.sign(folder, checksums.private_key(private))
    assert len((folder / "SHA256SUMS.sig").read_bytes()) == 64
    assert checksums.signed_by(folder, key)
    assert not checksums.signed_by(folder, checksums.public_key(stranger))
    with (folder / "SHA256SUMS").open("a") as file:
        file.write(f"{'0' * 64}  more\n")
    assert not checksums.signed_by(folder, key)


@pytest.mark.parametrize("content", [b"", b"nonsense", None])
def test_what_holds_no_key_is_said_to_hold_none(content, tmp_path):
    private, public = checksums.new_key(tmp_path / "holder")
    if content is None:  # each is the other's
        private, public = public, private
    else:
        for file in (private, public):
            file.write_bytes(content)
    with pytest.raises(InvalidInput, match="holds no private Ed25519 key"):
        checksums.private_key(private)
    with pytest.raises(InvalidInput, match="holds no public Ed25519 key"):
        checksums.public_key(public)
    with pytest.raises(InvalidInput, match=r"none\.key cannot be read"):
        checksums.private_key(tmp_path / "none.key")


def test_a_key_of_a_kind_that_nobody_knows_is_none(tmp_path):
    for kind, file, find in (
        ("private", "302e020100300506032b657f04220420", checksums.private_key),
        ("public", "302a300506032b657f032100", checksums.public_key),
    ):  # an Ed25519 key, but for the number that says so
        text = base64.b64encode(bytes.fromhex(file) + bytes(32)).decode()
        (tmp_path / "x").write_text(f"-----BEGIN {kind.upper()} KEY-----\n{text}\n-----END {kind.upper()} KEY-----\n")
        with pytest.raises(InvalidInput, match=f"holds no {kind} Ed25519 key"):
            find(tmp_path / "x")


def test_a_key_with_a_password_or_of_another_kind_is_none(tmp_path):
    serialization = pytest.importorskip("cryptography.hazmat.primitives.serialization")
    from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    pem, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    locked = Ed25519PrivateKey.generate().private_bytes(pem, form, serialization.BestAvailableEncryption(b"x"))
    other = generate_private_key(SECP256R1()).private_bytes(pem, form, serialization.NoEncryption())
    for content in (locked, other):
        (tmp_path / "x.key").write_bytes(content)
        with pytest.raises(InvalidInput, match="holds no private Ed25519 key without a password"):
            checksums.private_key(tmp_path / "x.key")


def test_no_key_is_written_over(tmp_path):
    checksums.new_key(tmp_path / "holder")
    with pytest.raises(InvalidInput, match=r"holder\.key exists already, and no key is overwritten"):
        checksums.new_key(tmp_path / "holder")
