"""A film in an HTML page: frames, a slider and a button, with nothing to download."""

import base64
import html
import io
import json
from collections.abc import Callable, Sequence
from typing import Any

from bnlib import _checks
from bnlib._extras import extra

# The resolution of the frames; 100 is one dot per CSS pixel.
_DOTS_PER_INCH = 130

_PAGE = """<figure class="bnlib-player" style="margin: 0; max-width: {width}px">
<img alt="{alt}" width="{width}" height="{height}"
 style="display: block; width: 100%; height: auto" src="{still}">
<div style="display: none; flex-wrap: wrap; gap: 0.4rem 0.8rem;
 align-items: center; padding-top: 0.4rem">
<button type="button" style="font: inherit; min-width: 4.5em">Play</button>
<input type="range" min="0" max="{last}" value="{last}" aria-label="Frame"
 style="flex: 1 1 8rem; min-width: 6rem; height: 1.6rem">
<span style="flex: 1 1 100%"></span>
</div>
<script>
(() => {{
  const player = document.currentScript.parentElement;
  const frames = {frames};
  const captions = {captions};
  const [picture, controls] = player.children;
  const [button, slider, text] = controls.children;
  let timer = null;
  function show(number) {{
    slider.value = number;
    slider.setAttribute("aria-valuetext", captions[number]);
    picture.src = "data:image/webp;base64," + frames[number];
    text.textContent = captions[number];
  }}
  function pause() {{
    clearInterval(timer);
    timer = null;
    button.textContent = "Play";
  }}
  function forward() {{
    if (!player.isConnected || Number(slider.value) >= frames.length - 1) pause();
    else show(Number(slider.value) + 1);
  }}
  button.addEventListener("click", () => {{
    if (timer !== null) return pause();
    if (Number(slider.value) >= frames.length - 1) show(0);
    button.textContent = "Pause";
    timer = setInterval(forward, {milliseconds});
  }});
  slider.addEventListener("input", () => {{
    pause();
    show(Number(slider.value));
  }});
  show(frames.length - 1);
  controls.style.display = "flex";
}})();
</script>
</figure>"""


class Player:
    """A film that a notebook, and a page made from it, plays without a kernel.

    It opens on its last frame and waits: nothing moves until a reader asks for it. If
    scripts do not run, it shows the last frame alone.

    Parameters
    ----------
    frames : sequence of bytes
        WebP files, all of one size; at least two.
    captions : sequence of str
        One line for each frame; a screen reader reads it too.
    size : (int, int)
        Width and height on the page, in CSS pixels.
    alt : str
        What the film shows, for a reader who cannot see it.
    seconds : float above 0
        How long a frame stays.

    Raises
    ------
    TypeError, ValueError
        If there are fewer than two frames, the numbers of frames and captions differ,
        ``alt`` is empty, or ``size`` or ``seconds`` is out of range.

    Examples
    --------
    >>> player = Player([b"one", b"two"], ["before", "after"], (1, 1), "A dot moves.")
    >>> player._repr_html_().startswith('<figure class="bnlib-player"')
    True

    References
    ----------
    Chapter 14, "What noise prefers".
    """

    def __init__(
        self,
        frames: Sequence[bytes],
        captions: Sequence[str],
        size: tuple[int, int],
        alt: str,
        seconds: float = 0.3,
    ):
        if len(frames) < 2 or len(frames) != len(captions):
            raise ValueError(
                f"there are {len(frames)} frames and {len(captions)} captions: give as "
                "many, two or more"
            )
        if not isinstance(alt, str) or not alt.strip():
            raise ValueError("alt is empty: say what the film shows")
        for length in size:
            _checks.check_integer("a length of size", length, 1)
        _checks.check_positive("seconds", seconds)
        self._frames = [base64.b64encode(frame).decode() for frame in frames]
        self._captions, self._size, self._alt = list(captions), size, alt
        self._milliseconds = round(1000 * seconds)

    def __repr__(self):
        return f"Player of {len(self._frames)} frames: {self._alt}"

    def _repr_html_(self):
        return _PAGE.format(
            width=self._size[0],
            height=self._size[1],
            alt=html.escape(self._alt),
            still="data:image/webp;base64," + self._frames[-1],
            last=len(self._frames) - 1,
            frames=json.dumps(self._frames),
            # A caption must not end the script.
            captions=json.dumps(self._captions).replace("<", "\\u003c"),
            milliseconds=self._milliseconds,
        )


def film(
    fig: Any,
    draw: Callable[[int], Any],
    captions: Sequence[str],
    alt: str,
    *,
    seconds: float = 0.3,
) -> Player:
    """Draw the frames of a film on one figure, and close it.

    Parameters
    ----------
    fig : matplotlib.figure.Figure
    draw : callable
        Takes the number of a frame, from 0, and changes the figure.
    captions : sequence of str
        One for each frame.
    alt : str
        What the film shows.
    seconds : float above 0
        How long a frame stays.

    Returns
    -------
    Player

    Raises
    ------
    TypeError, ValueError
        As `Player`.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> fig, ax = plt.subplots(figsize=(1, 1))
    >>> (dot,) = ax.plot(0, 0, "o")
    >>> film(fig, lambda n: dot.set_xdata([n]), ["left", "right"], "A dot moves.")
    Player of 2 frames: A dot moves.

    References
    ----------
    Chapter 14, "What noise prefers".
    """
    with extra("plot"):
        from matplotlib import pyplot as plt

    frames = []
    try:
        for number in range(len(captions)):
            draw(number)
            with io.BytesIO() as file:
                # Do not crop, so that all frames have one size. WebP is a third the
                # size of Matplotlib's PNG.
                fig.savefig(
                    file,
                    format="webp",
                    dpi=_DOTS_PER_INCH,
                    bbox_inches=None,
                    pil_kwargs={"quality": 80},
                )
                frames.append(file.getvalue())
    finally:
        plt.close(fig)
    size = tuple(round(100 * inches) for inches in fig.get_size_inches())
    return Player(frames, captions, size, alt, seconds)
