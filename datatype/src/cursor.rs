//! A cursor: a position in a tiled layout (the *segment* of `MPITypes`), with access to the runs that
//! follow.

use std::ops::ControlFlow;

use crate::layout::Run;
use crate::locate::certain_run;
use crate::tiled::Tiled;
use crate::walk::{Span, Walker};

/// Number of runs that a cursor holds ready for [`Cursor::next_run`].
const AHEAD: usize = 32;

/// Walks the runs of a tiled layout from any position, in stream order.
///
/// Runs that touch in memory, in stream order, are merged. Nothing is allocated per run. A seek costs
/// O(depth + log n), and so does the start of each call of [`Cursor::for_each_run`].
///
/// ```
/// use capulet_datatype::{Cursor, Datatype, Named, Run, Tiled};
/// let int = Datatype::named(Named::Int);
/// let pairs = Datatype::vector(3, 2, 4, &int)?;
/// let mut cursor = Cursor::new(Tiled::new(pairs.layout().clone(), 1)?);
/// cursor.seek(4);
/// assert_eq!(cursor.next_run(u64::MAX), Some(Run { offset: 4, len: 4 }));
/// assert_eq!(cursor.next_run(6), Some(Run { offset: 16, len: 6 }));
/// assert_eq!((cursor.position(), cursor.remaining()), (14, 10));
/// # Ok::<(), capulet_datatype::TypeError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Cursor {
    tiled: Tiled,
    position: u64,
    ahead: Ahead,
}

/// Merged runs that follow the position. The last run may continue after `end`.
#[derive(Debug, Clone)]
struct Ahead {
    runs: [Run; AHEAD],
    first: usize,
    len: usize,
    /// Stream position after the last held run.
    end: u64,
    /// Number of runs to fetch at the next refill: few after a seek, more as the walk continues.
    fetch: usize,
    /// Whether the only held run is known to end where its length says.
    complete: bool,
}

impl Ahead {
    const fn at(position: u64) -> Self {
        Self {
            runs: [Run { offset: 0, len: 0 }; AHEAD],
            first: 0,
            len: 0,
            end: position,
            fetch: 1,
            complete: false,
        }
    }

    fn restart(&mut self, position: u64) {
        (self.first, self.len, self.end, self.fetch, self.complete) = (0, 0, position, 1, false);
    }
}

impl Cursor {
    /// A cursor at the start of the stream.
    pub fn new(tiled: Tiled) -> Self {
        Self { tiled, position: 0, ahead: Ahead::at(0) }
    }

    /// The tiled layout that the cursor walks.
    pub fn tiled(&self) -> &Tiled {
        &self.tiled
    }

    /// The stream position, in bytes.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Number of stream bytes from the position to the end.
    pub fn remaining(&self) -> u64 {
        self.tiled.size() - self.position
    }

    /// Moves to a stream position, forward or backward. A position beyond the end means the end.
    pub fn seek(&mut self, stream: u64) {
        let stream = stream.min(self.tiled.size());
        if stream != self.position {
            self.position = stream;
            self.ahead.restart(stream);
        }
    }

    /// The run at the position, up to its end; `None` at the end of the stream.
    pub fn peek(&mut self) -> Option<Run> {
        self.refill();
        (self.ahead.len > 0).then(|| self.ahead.runs[self.ahead.first])
    }

    /// Returns the run at the position, at most `max_bytes` of it, and moves the position past the returned
    /// bytes. Returns `None` at the end of the stream, and if `max_bytes` is 0. Amortized O(1).
    pub fn next_run(&mut self, max_bytes: u64) -> Option<Run> {
        if max_bytes == 0 {
            return None;
        }
        let run = self.peek()?;
        let len = run.len.min(max_bytes);
        self.position += len;
        let ahead = &mut self.ahead;
        if len == run.len {
            ahead.first += 1;
            ahead.len -= 1;
        } else {
            ahead.runs[ahead.first] = Run { offset: run.offset + len as i64, len: run.len - len };
        }
        Some(Run { offset: run.offset, len })
    }

    /// Makes the first held run complete: either another run follows it, or the stream ends.
    fn refill(&mut self) {
        let ahead = &mut self.ahead;
        let left = self.tiled.size() - ahead.end;
        if ahead.len >= 2 || left == 0 || (ahead.complete && ahead.len > 0) {
            return;
        }
        let Some(root) = self.tiled.root() else { return };
        if ahead.fetch == 1 {
            ahead.fetch = 2;
            // After a seek, most callers ask for one run only. The walker serves callers that continue.
            if let Some(run) = certain_run(root, ahead.end) {
                (ahead.runs[0], ahead.len, ahead.complete) = (run, 1, true);
                ahead.end += run.len;
                return;
            }
        }
        ahead.complete = false;
        ahead.runs[0] = ahead.runs[ahead.first.min(AHEAD - 1)];
        ahead.first = 0;
        let (mut held, mut taken, wanted) = (ahead.len, 0, ahead.fetch);
        let mut merger = Merger::default();
        if held == 1 {
            merger.pending = ahead.runs[0];
            held = 0;
        }
        let start = merger.pending.len;
        let runs = &mut ahead.runs;
        let _ = walk(&mut Walker::new(root, ahead.end, left), &mut merger, &mut |run| {
            runs[held] = run;
            held += 1;
            taken += run.len;
            if held == wanted { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        ahead.len = held;
        ahead.end += taken - start;
        ahead.fetch = (wanted * 2).min(AHEAD);
    }

    /// Visits the runs of the next `bytes` stream bytes (or of all remaining bytes, if these are fewer), in
    /// order. The first and the last run may be parts of maximal runs. Afterwards the position is the end
    /// of the bytes; if `visit` breaks, the position is the end of the run at which it broke.
    pub fn for_each_run<B>(
        &mut self,
        bytes: u64,
        mut visit: impl FnMut(Run) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        let bytes = bytes.min(self.remaining());
        let Some(root) = self.tiled.root() else { return ControlFlow::Continue(()) };
        let mut done = 0;
        let flow = walk(&mut Walker::new(root, self.position, bytes), &mut Merger::default(), &mut |run| {
            done += run.len;
            visit(run)
        });
        self.seek(self.position + done);
        flow
    }
}

/// Holds the last run back until the next run is known not to touch it.
#[derive(Debug, Default)]
struct Merger {
    pending: Run,
}

impl Default for Run {
    /// A run of no bytes, at offset 0.
    fn default() -> Self {
        Self { offset: 0, len: 0 }
    }
}

impl Merger {
    /// Adds a run. Passes the previous run to `visit` if the two do not touch.
    #[inline]
    fn push<B>(&mut self, run: Run, visit: &mut impl FnMut(Run) -> ControlFlow<B>) -> ControlFlow<B> {
        if self.pending.offset.wrapping_add(self.pending.len as i64) == run.offset && self.pending.len > 0 {
            self.pending.len += run.len;
            return ControlFlow::Continue(());
        }
        let ready = std::mem::replace(&mut self.pending, run);
        if ready.len > 0 { visit(ready) } else { ControlFlow::Continue(()) }
    }
}

/// Visits all runs of a walker, merged.
fn walk<B>(
    walker: &mut Walker<'_>,
    merger: &mut Merger,
    visit: &mut impl FnMut(Run) -> ControlFlow<B>,
) -> ControlFlow<B> {
    while let Some(span) = walker.next_span() {
        match span {
            Span::Strided { offset, block, count, stride } => {
                merger.push(Run { offset, len: block }, visit)?;
                if count > 1 {
                    // Runs within a row never touch.
                    visit(merger.pending)?;
                    let mut run = Run { offset: offset.wrapping_add(stride), len: block };
                    for _ in 2..count {
                        visit(run)?;
                        run.offset = run.offset.wrapping_add(stride);
                    }
                    merger.pending = run;
                }
            }
            listed => listed.try_for_each(|offset, len| merger.push(Run { offset, len }, visit))?,
        }
    }
    if merger.pending.len > 0 { visit(merger.pending) } else { ControlFlow::Continue(()) }
}
