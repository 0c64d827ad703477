//! File views (MPI 4.1, section 14.3).

use std::iter;

use capulet_comm::{ErrorClass, MpiType};
use capulet_datatype::{Cursor, Datatype, Tiled};

use crate::error::{Error, Result};

/// The view of a rank: copies of `filetype` from `displacement_bytes` on. Offsets count whole `etype`s.
#[derive(Debug, Clone)]
pub struct FileView {
    displacement_bytes: u64,
    etype: MpiType,
    filetype: MpiType,
    representation: String,
    tiled: Tiled,
    /// Whether the view begins at the position that the shared file pointer has when the view is set.
    begins_here: bool,
}

const NO_ROOM: &str = "the displacement leaves no room for the filetype";

impl FileView {
    /// The initial view of an open file: a stream of bytes from offset 0 on.
    pub fn bytes() -> Self {
        let byte = MpiType::byte();
        let tiled = tiled_to_the_end(byte.datatype(), 0);
        Self {
            displacement_bytes: 0,
            etype: byte.clone(),
            filetype: byte,
            representation: "native".to_owned(),
            tiled,
            begins_here: false,
        }
    }

    /// Checks the arguments of `MPI_File_set_view` that one rank can check. In a `writable` file, the pieces
    /// of a type must not overlap.
    ///
    /// # Errors
    /// * `MPI_ERR_ARG` for a negative displacement, an etype without data, and a filetype that is not made of
    ///   etypes or has a negative extent.
    /// * `MPI_ERR_IO`, as in ROMIO, for an etype or filetype with displacements that are negative, decrease,
    ///   or (in a writable file) overlap.
    /// * `MPI_ERR_UNSUPPORTED_DATAREP` for a representation other than `native` and `internal`.
    pub fn checked(
        displacement_bytes: i64,
        etype: MpiType,
        filetype: MpiType,
        representation: &str,
        writable: bool,
    ) -> Result<Self> {
        let refuse = |what: &str| Err(Error::argument(ErrorClass::Arg, what));
        let Ok(displacement_bytes) = u64::try_from(displacement_bytes) else {
            return refuse("the displacement of a view must not be negative");
        };
        if !matches!(representation, "native" | "internal") {
            let what = format!("data representation {representation:?} is not supported");
            return Err(Error::argument(ErrorClass::UnsupportedDatarep, what));
        }
        check_pair(etype.datatype(), filetype.datatype(), writable)?;
        let tiled = tiled_to_the_end(filetype.datatype(), displacement_bytes);
        if tiled.count() == 0 && filetype.datatype().size() > 0 {
            return refuse(NO_ROOM);
        }
        let representation = representation.to_owned();
        Ok(Self { displacement_bytes, etype, filetype, representation, tiled, begins_here: false })
    }

    /// As [`FileView::checked`], for a view that begins at the shared file pointer:
    /// `MPI_DISPLACEMENT_CURRENT`, in sequential mode only (MPI 4.1, section 14.3).
    ///
    /// # Errors
    /// As [`FileView::checked`].
    pub fn from_here(
        etype: MpiType,
        filetype: MpiType,
        representation: &str,
        writable: bool,
    ) -> Result<Self> {
        let view = Self::checked(0, etype, filetype, representation, writable)?;
        Ok(Self { begins_here: true, ..view })
    }

    pub(crate) fn begins_here(&self) -> bool {
        self.begins_here
    }

    /// The same view from `displacement_bytes` on.
    ///
    /// # Errors
    /// `MPI_ERR_ARG` if the displacement leaves no room for the filetype.
    pub(crate) fn moved_to(self, displacement_bytes: u64) -> Result<Self> {
        let tiled = tiled_to_the_end(self.filetype.datatype(), displacement_bytes);
        if tiled.count() == 0 && self.filetype.datatype().size() > 0 {
            return Err(Error::argument(ErrorClass::Arg, NO_ROOM));
        }
        Ok(Self { displacement_bytes, tiled, begins_here: false, ..self })
    }

    /// Start of the view, in bytes from the start of the file.
    pub fn displacement_bytes(&self) -> u64 {
        self.displacement_bytes
    }

    /// The unit of offsets in the view.
    pub fn etype(&self) -> &MpiType {
        &self.etype
    }

    /// The pattern that the view repeats.
    pub fn filetype(&self) -> &MpiType {
        &self.filetype
    }

    /// `native` or `internal`.
    pub fn representation(&self) -> &str {
        &self.representation
    }

    /// The filetype, tiled up to the largest file offset.
    pub(crate) fn tiled(&self) -> &Tiled {
        &self.tiled
    }

    /// Bytes of data in an etype.
    pub fn etype_bytes(&self) -> u64 {
        self.etype.datatype().size()
    }

    /// The stream position, in bytes, of an offset in etypes.
    ///
    /// # Errors
    /// `MPI_ERR_ARG` if the offset is negative or beyond the largest file offset.
    pub fn position_bytes(&self, offset: i64) -> Result<u64> {
        let bytes = u64::try_from(offset).ok().and_then(|offset| offset.checked_mul(self.etype_bytes()));
        bytes.filter(|bytes| i64::try_from(*bytes).is_ok()).ok_or_else(|| {
            Error::argument(
                ErrorClass::Arg,
                format!("offset {offset} is negative or beyond the largest file offset"),
            )
        })
    }

    /// The file offset of byte `position_bytes` of the stream.
    ///
    /// # Errors
    /// `MPI_ERR_ARG` if the view has no such byte.
    pub fn file_offset(&self, position_bytes: u64) -> Result<u64> {
        if self.tiled.size() == 0 && position_bytes == 0 {
            return Ok(self.displacement_bytes);
        }
        if position_bytes >= self.tiled.size() {
            return Err(Error::argument(ErrorClass::Arg, "the offset is beyond the end of the view"));
        }
        Ok((self.displacement_bytes as i64 + self.tiled.offset_of(position_bytes)) as u64)
    }

    /// File offset of `len_bytes` bytes at byte `position_bytes` of the stream, if the view has no gaps, so
    /// that the bytes are one run. `None` if the view has gaps, the bytes are not whole etypes, or the view
    /// has no such bytes.
    pub(crate) fn run_at(&self, position_bytes: u64, len_bytes: u64) -> Option<u64> {
        let end_bytes = position_bytes.checked_add(len_bytes).filter(|end| *end <= self.tiled.size())?;
        let is_whole = len_bytes.is_multiple_of(self.etype_bytes().max(1)) && self.tiled.is_dense();
        // No overflow: the tiled view ends at the largest file offset.
        is_whole.then(|| self.displacement_bytes + self.tiled.true_lb() as u64 + end_bytes - len_bytes)
    }

    /// The end of a file of `file_bytes` bytes, as an offset in etypes: the first etype of the view that
    /// starts at or after the end (MPI 4.1, section 14.1.1).
    pub fn end_offset(&self, file_bytes: u64) -> u64 {
        let inside = file_bytes.saturating_sub(self.displacement_bytes);
        if inside == 0 || self.etype_bytes() == 0 {
            return 0;
        }
        let below = if self.tiled.is_monotone() {
            self.tiled.bytes_below(i64::try_from(inside).unwrap_or(i64::MAX))
        } else {
            // The tiles overlap, so this counts the whole tiles that start below the end.
            let layout = self.tiled.layout();
            let extent = layout.extent().max(1) as u64;
            inside.div_ceil(extent).saturating_mul(layout.size())
        };
        below.div_ceil(self.etype_bytes())
    }
}

fn check_pair(etype: &Datatype, filetype: &Datatype, writable: bool) -> Result<()> {
    let refuse = |what: &str| Err(Error::argument(ErrorClass::Arg, what));
    if etype.size() == 0 {
        return refuse("an etype must hold data");
    }
    check_places(etype, "etype", writable)?;
    if filetype.size() == 0 {
        return Ok(());
    }
    if !filetype.is_tiling_of(etype) {
        return refuse("the filetype must be made of whole etypes");
    }
    check_places(filetype, "filetype", writable)?;
    if filetype.extent() < 0 {
        return refuse("the extent of the filetype must not be negative");
    }
    Ok(())
}

/// Checks the displacements of an etype or filetype. The standard names no error class. The class is
/// the same as in ROMIO.
fn check_places(datatype: &Datatype, what: &str, writable: bool) -> Result<()> {
    let refuse = |rule: &str| Err(Error::argument(ErrorClass::Io, format!("the {what} {rule}")));
    if datatype.true_lb() < 0 {
        return refuse("must not have negative displacements");
    }
    if !datatype.has_nondecreasing_displacements() && !has_nondecreasing_runs(datatype) {
        return refuse("must not have displacements that decrease");
    }
    if writable && !datatype.layout().is_monotone() {
        return refuse("of a writable file must not overlap itself");
    }
    Ok(())
}

/// Whether no contiguous piece begins before its predecessor, although single elements may. ROMIO reads
/// through such pieces. Takes time proportional to the number of pieces.
fn has_nondecreasing_runs(datatype: &Datatype) -> bool {
    let Ok(once) = Tiled::new(datatype.layout().clone(), 1) else { return false };
    let mut cursor = Cursor::new(once);
    let starts = iter::from_fn(|| cursor.next_run(u64::MAX)).map(|run| run.offset);
    starts.is_sorted()
}

/// As many copies of the filetype as fit below the largest file offset.
fn tiled_to_the_end(filetype: &Datatype, displacement_bytes: u64) -> Tiled {
    let room = i64::MAX.saturating_sub_unsigned(displacement_bytes);
    Tiled::until(filetype.layout().clone(), room)
}

#[cfg(test)]
mod tests {
    use capulet_datatype::Named;

    use super::*;

    /// A view with a filetype that MPI does not know, so that the test needs no MPI.
    fn view(displacement_bytes: u64, filetype: &Datatype) -> FileView {
        let tiled = tiled_to_the_end(filetype, displacement_bytes);
        FileView { displacement_bytes, tiled, ..FileView::bytes() }
    }

    #[test]
    fn run_at_agrees_with_file_offset_and_is_none_with_gaps() -> capulet_datatype::Result<()> {
        let double = Datatype::named(Named::Double);
        let displaced = Datatype::hindexed(&[3], &[24], &double)?;
        let touching = Datatype::resized(24, 24, &displaced)?;
        for filetype in [&double, &touching] {
            let view = view(1000, filetype);
            for (position_bytes, len_bytes) in [(0, 1), (5, 100), (24, 24), (1 << 40, 7)] {
                let first = view.run_at(position_bytes, len_bytes).expect("the view has no gaps");
                assert_eq!(Ok(first), view.file_offset(position_bytes).map_err(drop));
                assert_eq!(
                    Ok(first + len_bytes - 1),
                    view.file_offset(position_bytes + len_bytes - 1).map_err(drop)
                );
            }
            let end_bytes = view.tiled().size();
            assert!(view.run_at(end_bytes - 3, 3).is_some() && view.run_at(end_bytes - 3, 4).is_none());
            assert_eq!(view.run_at(u64::MAX, 2), None);
        }
        assert_eq!(view(0, &Datatype::resized(0, 16, &double)?).run_at(0, 8), None, "this view has gaps");
        Ok(())
    }
}
