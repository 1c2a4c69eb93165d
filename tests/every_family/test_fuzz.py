"""Any config and any batch works with finite results, or raises an error that names the field or argument."""

from collections.abc import Callable

import pytest

from tests.every_family.fuzz import Case, batch_case, config_case, verdict

NUMBER = 100
every_source = pytest.mark.parametrize("make_case", [config_case, batch_case], ids=["configs", "batches"])


def failures(make_case: Callable[[int], Case], numbers: range) -> str:
    found = [wrong for wrong in map(verdict, map(make_case, numbers)) if wrong]
    return f"{len(found)} of {len(numbers)} cases fail:\n" + "\n".join(found) if found else ""


@every_source
def test_every_case_works_or_is_refused_by_name(make_case: Callable[[int], Case]) -> None:
    assert not failures(make_case, range(NUMBER))


@pytest.mark.slow
@every_source
def test_many_more_cases(make_case: Callable[[int], Case]) -> None:
    assert not failures(make_case, range(NUMBER, 2000 + NUMBER))


def test_the_search_finds_what_it_looks_for() -> None:
    """It finds an error without a message, an error without a name, and a NaN; a case with one number is always the
    same.
    """
    for call in (lambda: [][0], lambda: int("x"), lambda: (float("nan") * batch_case(0).call()[0],)):
        assert verdict(Case("title", {"input_ids": None}, call))
    assert batch_case(3).title == batch_case(3).title
    assert config_case(3).title == config_case(3).title
