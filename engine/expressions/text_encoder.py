"""Text that repeats, as indices into its distinct values, so that costly functions run once per distinct text.

`expressions.program` puts an encoder before such functions. Distinct texts are kept from batch to batch within a bound,
and where text does not repeat the encoder steps aside.
"""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from penstock.engine.expressions.values import Dictionary, Encoded, load
from penstock.model.errors import StateBudgetError
from penstock.model.schema import normal_type
from penstock.state.keys.batch_keys import KeyCodec
from penstock.state.tables.budget import Account, Budget
from penstock.state.tables.key_index import KeyIndex

_LIMIT_BYTES = 16_000_000
_FEWEST_ROWS = 64
_BATCHES_ASIDE = 64
_MOST_DICTIONARY_VALUES = 65_536


class TextEncoder:
    """Encodes one text column, batch after batch."""

    def __init__(self) -> None:
        """Start without any text."""
        self._codec = KeyCodec([pa.string()])
        self._aside = 0
        self._forget()

    def encode(self, text: Any) -> Any:
        """Return a column encoded, or as it is when that would not pay."""
        if isinstance(text, Encoded) or len(text) < _FEWEST_ROWS:
            return text
        if self._aside:
            self._aside -= 1
            return text
        try:
            slots, created = self._index.locate(self._codec.encode([text]), None, True)
        except StateBudgetError:
            self._aside = _BATCHES_ASIDE
            self._forget()
            return text
        if len(created):
            new = self._index.key_columns(created)[0]
            self._dictionary.values = pa.concat_arrays([self._dictionary.values, new])
        if 2 * len(created) > len(text):
            self._aside = _BATCHES_ASIDE
        return Encoded(pa.array(slots.astype(np.int32)), self._dictionary, text)

    def _forget(self) -> None:
        account = Account(Budget("expression", _LIMIT_BYTES))
        self._index = KeyIndex(self._codec, None, account, lambda _slots: None)
        self._dictionary = Dictionary(pa.array([], pa.string()))


class DictionaryReader:
    """Reads one column whose batches may come dictionary-encoded; batches of one file share their dictionary."""

    def __init__(self) -> None:
        """Start without a dictionary."""
        self._last: tuple[tuple[Any, ...], pa.Array, Dictionary] | None = None

    def read(self, array: pa.Array) -> Any:
        """Return text encoded as it came, and anything else as a plain array."""
        if not isinstance(array, pa.DictionaryArray):
            return load(array)
        values = array.dictionary
        too_many = len(values) > max(_MOST_DICTIONARY_VALUES, 4 * len(array))
        if not pt.is_string(normal_type(values.type)) or too_many:
            return load(array)
        buffers = [buffer.address if buffer is not None else 0 for buffer in values.buffers()]
        identity = (len(values), values.offset, *buffers)
        if self._last is None or self._last[0] != identity:
            self._last = (identity, values, Dictionary(load(values)))
        return Encoded(array.indices.cast(pa.int32()), self._last[2])
