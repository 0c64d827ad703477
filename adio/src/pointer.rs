//! The individual file pointer (MPI 4.1, 14.4.3).

use capulet_comm::ErrorClass;

use crate::error::{Error, Result};
use crate::file::File;
use crate::mode::AccessMode;
use crate::view::FileView;

/// The origin of an offset that is given to [`File::seek`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whence {
    /// The start of the view (`MPI_SEEK_SET`).
    Set,
    /// The position of the pointer (`MPI_SEEK_CUR`).
    Current,
    /// The end of the file (`MPI_SEEK_END`).
    End,
}

impl FileView {
    /// The position in the data stream of the view, in bytes, of `offset` etypes from `whence`. The
    /// pointer is at `pointer_bytes` of the stream, and the file has `end_bytes` bytes.
    ///
    /// # Errors
    /// `MPI_ERR_ARG` if the position is negative or beyond the largest offset.
    pub(crate) fn seek_bytes(
        &self,
        offset: i64,
        whence: Whence,
        pointer_bytes: u64,
        end_bytes: u64,
    ) -> Result<u64> {
        let origin = match whence {
            Whence::Set => 0,
            Whence::Current => pointer_bytes / self.etype_bytes(),
            Whence::End => self.end_offset(end_bytes),
        };
        let target = i64::try_from(origin).ok().and_then(|origin| origin.checked_add(offset));
        let target = target.ok_or_else(|| {
            Error::argument(ErrorClass::Arg, "the target of the seek is beyond the largest offset")
        })?;
        if target < 0 {
            return Err(Error::argument(
                ErrorClass::Arg,
                "the target of the seek is before the start of the view",
            ));
        }
        self.position_bytes(target)
    }
}

impl File {
    /// Moves the individual file pointer to `offset` etypes from `whence`. Local. `Whence::End` asks the
    /// storage for the length of the file.
    ///
    /// # Errors
    /// `MPI_ERR_ARG` if the target is negative or beyond the largest offset (the pointer does not move),
    /// and `MPI_ERR_UNSUPPORTED_OPERATION` in sequential mode.
    pub fn seek(&self, offset: i64, whence: Whence) -> Result<()> {
        self.refuse_sequential("seeking in sequential mode")?;
        let end_bytes = if whence == Whence::End { self.size()? } else { 0 };
        let mut state = self.state();
        let view = state.view.clone();
        state.pointer_bytes = view.seek_bytes(offset, whence, state.pointer_bytes, end_bytes)?;
        Ok(())
    }

    /// The individual file pointer, in etypes of the view. Local.
    ///
    /// # Errors
    /// `MPI_ERR_UNSUPPORTED_OPERATION` in sequential mode.
    pub fn position(&self) -> Result<i64> {
        self.refuse_sequential("the individual file pointer in sequential mode")?;
        let state = self.state();
        Ok((state.pointer_bytes / state.view.etype_bytes()) as i64)
    }

    /// The file offset, in bytes, of `offset` etypes in the view (`MPI_File_get_byte_offset`). Local.
    ///
    /// # Errors
    /// `MPI_ERR_ARG` if the offset is negative or the view has no such byte.
    pub fn byte_offset(&self, offset: i64) -> Result<i64> {
        let view = self.state().view.clone();
        view.file_offset(view.position_bytes(offset)?).map(|offset| offset as i64)
    }

    pub(crate) fn refuse_sequential(&self, what: &'static str) -> Result<()> {
        if self.mode.contains(AccessMode::SEQUENTIAL) {
            return Err(Error::Unsupported { what });
        }
        Ok(())
    }
}
