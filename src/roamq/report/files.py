"""Figures as files of their own: what `charts.py` draws for a page, on white and with its title."""

import io
from pathlib import Path

from roamq.core.errors import ConfigError
from roamq.report.charts import DRAW, INK, SIZE_IN, STYLE
from roamq.report.exhibits import Figure

SUFFIXES = (".png", ".svg", ".pdf")


def check_name(path: Path) -> None:
    """Raise `ConfigError` unless a figure can be written under this name; called before any work is done."""
    if path.suffix.lower() not in SUFFIXES:
        raise ConfigError(f"{path}: the name of a figure must end with {', '.join(SUFFIXES)}")


def save(figure: Figure, path: Path) -> None:
    """Draw `figure` into a file of the kind its name ends with."""
    check_name(path)
    import matplotlib as mpl

    mpl.use("agg")
    from matplotlib.figure import Figure as Canvas

    on_white = {key: "black" if value == INK else value for key, value in STYLE.items()}
    with mpl.rc_context({**on_white, "savefig.transparent": False}):
        canvas = Canvas(figsize=SIZE_IN, layout="constrained")
        axes = canvas.add_subplot()
        DRAW[figure.kind](axes, figure)
        axes.set(title=figure.title, xlabel=figure.x_label, ylabel=figure.y_label)
        if figure.y_log:
            axes.set_yscale("log")
        if figure.x_log:
            axes.set_xscale("log")
        if len(figure.series) > 1:
            axes.legend()
        path.parent.mkdir(parents=True, exist_ok=True)
        drawn = io.BytesIO()
        canvas.savefig(drawn, dpi=150, format=path.suffix[1:].lower())
    try:
        path.write_bytes(drawn.getvalue())
    except OSError:
        path.unlink(missing_ok=True)  # half a figure is none
        raise
