"""Words of 64 bits for persons, from their keys as these come: nothing is kept of keys that are whole numbers.

A whole number is its own word; every other key has the number of its digest, from `NAMED` on. So of whole numbers,
which the keys of large tables are, no table of all persons is needed to read them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, final

import numpy as np
import numpy.typing as npt

from qrelease.data.person import Person
from qrelease.data.person_digests import MAX_EXACT, NAMED, Identity, whole_number
from qrelease.data.persons import PersonReader, person_identity, two_spellings
from qrelease.data.sources.kernels import all_between, read_only
from qrelease.errors import InvalidInput

NO_WORD: Final = -(1 << 63)
"""The word of a record without a person."""

Where = Callable[[int], str]


@final
class PersonWords:
    """Keys to words. Two spellings of one key are refused as `PersonReader` does."""

    def __init__(self, person: Person) -> None:
        self._person, self._new = person, list[tuple[str, Identity, Identity]]()
        self._reader = PersonReader(person, self._new)
        self._words = np.array([NO_WORD])  # by the number of a person; the last is nobody's, whose number is -1
        self._spelled: dict[int, tuple[str, str]] = {}  # other texts of whole numbers, and where they are
        self._whole = False  # whether there were words that no text was read for
        self._marked = any(person_identity(text)[0] == "number" for text in person.missing)

    def codes(self, keys: Iterable[object], where: Where) -> npt.NDArray[np.int64]:
        """The words of keys, (n,); `NO_WORD` where one is missing.

        where  says of a key's position where it stands, for errors
        """
        return self._of_numbers(self._reader.codes(keys, where), where)

    def text_codes(self, texts: Iterable[str], where: Where) -> npt.NDArray[np.int64]:
        """The same of texts, sooner."""
        return self._of_numbers(self._reader.text_codes(texts, where), where)

    def whole_codes(self, keys: npt.NDArray[Any], where: Where) -> npt.NDArray[np.int64]:
        """The same of whole numbers, sooner still."""
        if self._marked or keys.dtype.kind not in "iu":
            return self.codes(keys.tolist(), where)
        words = keys.astype(np.int64)  # unsigned ones from 2^63 on become negative
        if not all_between(
            read_only(words, np.int64), -1 if keys.dtype.kind == "u" else -int(MAX_EXACT), int(MAX_EXACT)
        ):
            return self.codes(keys.tolist(), where)
        self._whole = True
        if self._spelled:
            again = np.isin(words, [*self._spelled])
            if again.any():
                place = int(again.argmax())
                word = int(words[place])
                error = two_spellings(self._person.column, self._spelled[word][0], str(word))
                raise InvalidInput(f"{where(place)}: {error}")
        return words

    def _of_numbers(self, numbers: npt.NDArray[np.int64], where: Where) -> npt.NDArray[np.int64]:
        if self._new:
            known, more = len(self._words) - 1, len(self._new)
            words = np.arange(NAMED + known, NAMED + known + more + 1)
            words[-1] = NO_WORD
            for place, (text, *stands_for) in enumerate(self._new):
                for word in {whole_number(identity) for identity in stands_for} - {None}:
                    assert word is not None
                    if text == str(word):
                        words[place] = word
                    else:
                        at = where(int((numbers == known + place).argmax())) if self._whole else ""
                        self._spelled[word] = text, at
            self._words = np.concatenate([self._words[:-1], words])
            self._new.clear()
        return self._words[numbers]

    def check(self, words: npt.NDArray[np.int64]) -> None:
        """Raise `InvalidInput` where one of all words is that of a key which is also spelled otherwise."""
        if self._spelled and self._whole:
            spelled = np.array([*self._spelled])
            for first in range(0, len(words), _CHECKED):
                again = spelled[np.isin(spelled, words[first : first + _CHECKED])]
                if len(again):
                    text, at = self._spelled[int(again[0])]
                    raise InvalidInput(f"{at}: {two_spellings(self._person.column, str(again[0]), text)}")

    def digests(self) -> npt.NDArray[np.uint64]:
        """Digests of the persons whose words are numbers, by these."""
        return self._reader.digests()


_CHECKED: Final = 1 << 22
"""Words that are compared with other spellings at a time."""
