from demo.flights import Figures, figures, flights, message


def test_the_whole_file_has_the_figures_that_the_demonstration_checks() -> None:
    assert figures(flights()) == Figures(
        rows=336_776, distance=350_217_607, dep_delay=4_152_200, dep_delay_missing=8_255
    )


def test_numbers_are_numbers_and_na_is_none() -> None:
    first, *_ = flights(1)
    assert (first["dep_delay"], first["tailnum"], first["distance"]) == (2, "N14228", 1400)
    cancelled = next(flight for flight in flights() if flight["dep_delay"] is None)
    assert cancelled["dep_time"] is None


def test_a_flight_without_a_tail_number_has_no_key() -> None:
    nameless = next(flight for flight in flights() if flight["tailnum"] is None)
    key, value = message(nameless)
    assert key is None
    assert b'"tailnum":null' in value
