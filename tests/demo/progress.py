"""Shows the progress of the demo: a bar on a terminal, plain lines elsewhere."""

import contextlib
import sys
import time


class Progress:
    """The progress of `steps` pieces of work, one after the other. As a context it removes the bar at the
    end."""

    def __init__(self, steps):
        self._steps = steps
        self._done = 0
        self._bar = None

    def __enter__(self):
        if sys.stderr.isatty():
            from tqdm import tqdm

            layout = "{percentage:3.0f}% |{bar:30}| {n_fmt}/{total_fmt}  {elapsed}  {desc}"
            self._bar = tqdm(total=self._steps, leave=False, bar_format=layout)
        return self

    def __exit__(self, *_):
        if self._bar:
            self._bar.close()

    @contextlib.contextmanager
    def step(self, what):
        """One piece of work. Long work must call `tick` while it runs."""
        start = time.monotonic()
        if self._bar:
            self._bar.set_description_str(what)
        yield
        self._done += 1
        if self._bar:
            self._bar.update()
        else:
            print(f"[{self._done:>2}/{self._steps}] {what}: {time.monotonic() - start:.1f} s", flush=True)

    def tick(self):
        """Redraws the bar, so that its clock advances."""
        if self._bar:
            self._bar.refresh()
