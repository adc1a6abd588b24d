"""The front door: what is listed is there, and nothing else is."""

import penstock


def test_everything_listed_can_be_had() -> None:
    assert [name for name in penstock.__all__ if getattr(penstock, name, None) is None] == []


def test_the_list_has_no_repeats() -> None:
    assert len(penstock.__all__) == len(set(penstock.__all__))


def test_what_is_visible_is_what_is_listed() -> None:
    assert set(dir(penstock)) - {name for name in dir(penstock) if name.startswith("_")} == set(penstock.__all__)


def test_an_unknown_name_gets_a_sentence() -> None:
    try:
        penstock.tumblin  # noqa: B018
    except AttributeError as error:
        assert "tumbling" in str(error)
    else:
        raise AssertionError("no error")
