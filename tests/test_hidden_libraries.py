import importlib
import sys

import pytest

from tests.hidden_libraries import hide


def test_a_hidden_library_cannot_be_imported_whoever_imported_it_before(monkeypatch: pytest.MonkeyPatch) -> None:
    before = importlib.import_module("xml.etree.ElementTree")
    with monkeypatch.context() as hiding:
        hide(hiding, "xml")
        with pytest.raises(ImportError):
            importlib.import_module("xml.etree.ElementTree")
    assert importlib.import_module("xml.etree.ElementTree") is before
    assert sys.modules["xml.etree"].ElementTree is before
