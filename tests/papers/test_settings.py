"""What a paper leaves open: which parameter decides, in words that can be read."""

from roamq.reproduce.settings import decides, text_of

ENDS, PEAKS = (19.5, 20.0, 20.5), (5, 10, 30)


def test_few_combinations_are_all_named() -> None:
    found = {f"edge={edge}": "holds" if edge != "stop" else "fails" for edge in ("stop", "turn", "wrap")}

    assert decides(found) == "edge decides: fails with edge=stop; holds with edge=turn or edge=wrap"


def test_of_many_combinations_the_few_are_named_and_the_others_counted() -> None:
    found = {
        text_of({"end": end, "peak": peak}): "fits" if peak == 5 and end < 20.5 else "rejected"
        for end in ENDS
        for peak in PEAKS
    }

    assert decides(found) == (
        "end and peak decide: fits with end=19.5, peak=5 or end=20, peak=5; "
        "rejected with the other 7 of 9 combinations"
    )
