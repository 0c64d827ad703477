//! Lists of runs for callers that need one, made a part at a time.

use std::ops::{ControlFlow, Range};

use crate::cursor::Cursor;
use crate::error::Result;
use crate::layout::Run;
use crate::tiled::Tiled;

/// Some of the runs of a stream range, and the position at which the rest begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flattened {
    /// Maximal runs, in stream order.
    pub runs: Vec<Run>,
    /// Stream position after the last run: the start of the range for the next call, or the end of the
    /// range when all runs are listed.
    pub next: u64,
}

/// The first `runs_max` maximal runs of stream bytes `range`, fewer at the end of the range.
///
/// ```
/// use capulet_datatype::{Datatype, Named, Run, Tiled, flatten};
/// let double = Datatype::named(Named::Double);
/// let column = Datatype::vector(1_000_000, 1, 3, &double)?;
/// let tiled = Tiled::new(column.layout().clone(), 1)?;
/// let part = flatten(&tiled, 4..8_000_000, 2)?;
/// assert_eq!(part.runs, [Run { offset: 4, len: 4 }, Run { offset: 24, len: 8 }]);
/// assert_eq!(part.next, 16);
/// # Ok::<(), capulet_datatype::TypeError>(())
/// ```
///
/// # Errors
/// [`crate::TypeError::BadRange`].
pub fn flatten(tiled: &Tiled, range: Range<u64>, runs_max: usize) -> Result<Flattened> {
    tiled.check_range(&range)?;
    let mut runs = Vec::new();
    if runs_max == 0 {
        return Ok(Flattened { runs, next: range.start });
    }
    let mut cursor = Cursor::new(tiled.clone());
    cursor.seek(range.start);
    let _ = cursor.for_each_run(range.end - range.start, |run| {
        runs.push(run);
        if runs.len() == runs_max { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    Ok(Flattened { runs, next: cursor.position() })
}
