"""A film on a page: its frames one over the other, a slider, and a button that plays. No frame is fetched."""

from html import escape

from roamq.report.exhibits import Film

STYLE = """
.film { max-width: 40rem; margin: 1.25rem 0; }
.film .frame { display: none; } .film .frame.shown { display: block; }
.film .drawn { overflow-x: auto; }
.film svg { width: 100%; min-width: 32rem; height: auto; display: block; border-radius: 10px; }
.film svg { border: 1px solid var(--line); }
.film .said { min-height: 3em; margin: .5rem 0; }
.film .controls { display: flex; gap: .8rem; align-items: center; }
.film input { flex: 1; accent-color: var(--accent); }
.film button { font: inherit; padding: .15rem .9rem; cursor: pointer; }
@media print { .film .frame { display: block; } .film .controls { display: none; } }
"""

SCRIPT = """
for (const film of document.querySelectorAll(".film:not(.still)")) {
  const frames = film.querySelectorAll(".frame"), slider = film.querySelector("input");
  const button = film.querySelector("button");
  const show = (n) => { frames.forEach((f, i) => f.classList.toggle("shown", i === n)); slider.value = n; };
  let timer = null;
  const stop = () => { clearInterval(timer); timer = null; button.textContent = "Play"; };
  slider.addEventListener("input", () => { stop(); show(Number(slider.value)); });
  button.addEventListener("click", () => {
    if (timer) { stop(); return; }
    button.textContent = "Stop";
    timer = setInterval(() => show((Number(slider.value) + 1) % frames.length), 1200);
  });
}
"""


def film_markup(film: Film) -> str:
    """The film as a block of HTML. The page adds `STYLE` and `SCRIPT` once; without scripts the first frame shows."""
    frames = "".join(
        f'<div class="frame{" shown" if place == 0 else ""}"><div class="drawn">{svg}</div>'
        f'<p class="said">{escape(text)}</p></div>'
        for place, (svg, text) in enumerate(zip(film.frames, film.texts, strict=True))
    )
    title = escape(film.title)
    controls = (
        f'<div class="controls"><button type="button">Play</button><input type="range" min="0" '
        f'max="{len(film.frames) - 1}" value="0" aria-label="{title}: frame"></div>'
    )
    # A single picture has nothing to play.
    kind, shown = ("film", controls) if len(film.frames) > 1 else ("film still", "")
    return (
        f'<div class="{kind}"><h3>{title}</h3>{frames}{shown}<p class="note">{escape(film.caption)}</p></div>'
    )
