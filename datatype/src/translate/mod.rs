//! *Translate*: conversion between memory and a portable format, as part of the copy (Ross et al.,
//! *Processing MPI Datatypes Outside MPI*, section 4.2).
//!
//! There are two formats: the external types of netCDF's classic files, and MPI's `external32`. Elements
//! are gathered and converted in one pass; they are not packed in native form first.
//!
//! | module | contents |
//! |---|---|
//! | `number`, `quad`, `convert` | the conversion of one element |
//! | `netcdf`, `external32` | the choice of the conversion for each element |
//! | `script`, `unit` | the conversions of a whole type, as a value |
//! | `kernel` | the loops: the only file that turns addresses into elements |
//! | `engine` | the walk |
//!
//! Budget for B bytes of memory: each byte is read or written once, and each packed byte is written or read
//! once. There is no buffer for elements of one kind, and a stage of 16 KiB for mixed ones. If elements are
//! out of range, the row that contains them is examined a second time.

// A kernel is compiled for one instruction set, so the functions that it calls must be inlined into it.
#![allow(clippy::inline_always)]

mod convert;
mod engine;
mod error;
mod external32;
mod kernel;
mod netcdf;
mod number;
mod quad;
mod script;
mod unit;

use std::ops::{ControlFlow, Range};

use crate::copy::check_memory;
use crate::error::TypeError;
use crate::named::Prim;
use crate::signature::Signature;
use crate::tiled::Tiled;
use crate::tree::Datatype;
pub use error::TranslateError;
pub use netcdf::{NetcdfFormat, NetcdfType, OutOfRange};

use engine::{Copies, Job, Misfits, Sides};
use netcdf::{Fill, default_fill};
use script::{Both, Script};
use unit::{Change, Unit};

/// A compiled conversion of `count` instances of a type, to a packed external form and back.
///
/// Ranges count basic elements over all instances, in the order of the type map. A complex number is one
/// element. A value with its index is two elements.
///
/// ```
/// use capulet_datatype::{Datatype, Named, NetcdfFormat, NetcdfType, TranslateError, Translation};
/// // Every second of four doubles, as NC_FLOAT.
/// let double = Datatype::named(Named::Double);
/// let column = Datatype::vector(2, 1, 2, &double)?;
/// let translation = Translation::netcdf(&column, 1, NetcdfType::Float, NetcdfFormat::Cdf5)?;
/// let source: Vec<u8> = [1.5_f64, 0.0, 1e300, 0.0].iter().flat_map(|x| x.to_ne_bytes()).collect();
/// let mut packed = [0; 8];
/// translation.encode(&source, 0..1, &mut packed[..4])?;
/// assert_eq!(packed[..4], 1.5_f32.to_be_bytes());
/// let error = translation.encode(&source, 0..2, &mut packed);
/// assert_eq!(error, Err(TranslateError::OutOfRange { first: 1, count: 1 }));
/// # Ok::<(), TranslateError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Translation {
    tiled: Tiled,
    copies: Copies,
    script: Script,
    units: Vec<Unit>,
    is_netcdf: bool,
    /// The values stored for elements that are out of range: when encoding, and when decoding.
    fills: [Option<Fill>; 2],
}

impl Translation {
    /// A conversion of elements of one kind to a netCDF variable of type `external`, exactly as netCDF
    /// converts them (section 4.2 of the paper; netCDF User's Guide, *Type Conversion*). A value is out of
    /// range if it is below the least or above the largest value of the other type; values of real types
    /// are compared as `double`. An infinity is therefore out of range of another real type when it is
    /// written, and NaN is never out of range.
    ///
    /// # Errors
    /// [`TranslateError::Mixed`], [`TranslateError::Unsupported`], [`TranslateError::TextAndNumbers`],
    /// [`TranslateError::NotInFormat`], [`TypeError::Overflow`].
    pub fn netcdf(
        datatype: &Datatype,
        count: u64,
        external: NetcdfType,
        format: NetcdfFormat,
    ) -> Result<Self, TranslateError> {
        let tiled = Tiled::new(datatype.layout().clone(), count)?;
        let Some(prim) = only_element(datatype.signature())? else {
            return Self::new(tiled, Script::empty(), Vec::new(), true);
        };
        let unit = Unit::new(netcdf::change_of(prim, external, format)?, 1);
        // The size in memory is checked already. The size in the file can be eight times as large.
        let elements = tiled.size() / u64::from(prim.bytes);
        if elements > i64::MAX as u64 / unit.bytes.packed {
            return Err(TypeError::Overflow { what: "the size of all external elements" }.into());
        }
        let script = Script::run(0, elements, unit.bytes);
        Self::new(tiled, script, vec![unit], true)
    }

    /// A conversion of elements of any kinds to `external32` (MPI 4.1, section 14.5.2). Three kinds of
    /// values are out of range: a `long` that does not fit in 4 bytes, a wide character that does not fit
    /// in 2 bytes, and, when decoding, a number beyond the range of `long double`. The standard does not
    /// define the result of such a conversion. Here it is an error (`MPI_ERR_CONVERSION`), which is
    /// returned after all elements have been converted.
    ///
    /// # Errors
    /// [`TranslateError::Unsupported`], [`TypeError::Overflow`].
    pub fn external32(datatype: &Datatype, count: u64) -> Result<Self, TranslateError> {
        let tiled = Tiled::new(datatype.layout().clone(), count)?;
        let (script, units) = external32::script_of(datatype)?;
        Self::new(tiled, script.repeated(count), units, false)
    }

    fn new(tiled: Tiled, script: Script, units: Vec<Unit>, is_netcdf: bool) -> Result<Self, TranslateError> {
        let copies = Copies::of(&tiled)?;
        Ok(Self { tiled, copies, script, units, is_netcdf, fills: [None; 2] })
    }

    /// Sets the result for elements that are out of range. The default is [`OutOfRange::Cast`].
    #[must_use]
    pub fn out_of_range(mut self, out_of_range: OutOfRange) -> Self {
        self.fills = [None; 2];
        if let (OutOfRange::DefaultFill, Some(Change::Cast(memory, external))) = (out_of_range, self.cast()) {
            let to_file = default_fill(external);
            let big_endian = if cfg!(target_endian = "big") { to_file } else { to_file.reversed() };
            self.fills = [Some(big_endian), Some(default_fill(memory))];
        }
        self
    }

    /// Sets the value that encoding stores for elements that are out of range: `value` is one element in
    /// the form of the file (a variable's `_FillValue`). The value that decoding stores does not change.
    ///
    /// # Errors
    /// [`TranslateError::FillLength`].
    pub fn fill_value(mut self, value: &[u8]) -> Result<Self, TranslateError> {
        if let Some(Change::Cast(_, external)) = self.cast() {
            let expected = external.bytes();
            if value.len() != expected {
                return Err(TranslateError::FillLength { expected, found: value.len() });
            }
            self.fills[0] = Some(Fill::of(value));
        }
        Ok(self)
    }

    /// The change of a netCDF variable, if its elements are converted and not only reordered in their
    /// bytes.
    fn cast(&self) -> Option<Change> {
        match self.units.as_slice() {
            [unit] if self.is_netcdf && matches!(unit.change, Change::Cast(..)) => Some(unit.change),
            _ => None,
        }
    }

    /// The tiled layout whose elements are converted.
    pub fn tiled(&self) -> &Tiled {
        &self.tiled
    }

    /// The number of basic elements in all instances.
    pub fn elements(&self) -> u64 {
        self.script.elements
    }

    /// The size of the elements of `range` in the packed form, in bytes. For `external32` and the whole
    /// range, this is the result of `MPI_Pack_external_size`.
    ///
    /// # Errors
    /// [`TranslateError::BadElements`].
    pub fn packed_bytes(&self, range: Range<u64>) -> Result<u64, TranslateError> {
        let (start, end) = self.bytes_of(&range)?;
        Ok(end.packed - start.packed)
    }

    fn bytes_of(&self, range: &Range<u64>) -> Result<(Both, Both), TranslateError> {
        if range.start > range.end || range.end > self.elements() {
            let elements = self.elements();
            return Err(TranslateError::BadElements { start: range.start, end: range.end, elements });
        }
        Ok((self.script.bytes_before(range.start), self.script.bytes_before(range.end)))
    }

    /// Converts the elements of `range` from `source`, whose first byte has offset 0, into `packed`, which
    /// must be as long as [`Translation::packed_bytes`] reports.
    ///
    /// # Errors
    /// [`TranslateError::OutOfRange`], after all elements have been converted.
    /// [`TranslateError::BadElements`], [`TypeError::PackedLength`], [`TypeError::OutOfMemory`]; in these
    /// cases nothing is converted.
    pub fn encode(&self, source: &[u8], range: Range<u64>, packed: &mut [u8]) -> Result<(), TranslateError> {
        self.check(source.len(), &range, packed.len())?;
        let sides = Sides { memory: source.as_ptr().cast_mut(), packed: packed.as_mut_ptr() };
        // SAFETY: `# Safety` of `Translation::run`: `check` has verified that `source` holds the elements
        // of the range and `packed` their packed bytes. The two do not overlap, because `packed` is
        // borrowed mutably. When encoding, `Job::run` only reads the memory side, so the cast of `source`
        // to a mutable pointer does not lead to a write.
        unsafe { self.run::<true>(sides, range) }.outcome()
    }

    /// The reverse of [`Translation::encode`]. Writes no byte of `target` except the bytes of the elements.
    ///
    /// # Errors
    /// As [`Translation::encode`].
    pub fn decode(&self, packed: &[u8], range: Range<u64>, target: &mut [u8]) -> Result<(), TranslateError> {
        self.check(target.len(), &range, packed.len())?;
        let sides = Sides { memory: target.as_mut_ptr(), packed: packed.as_ptr().cast_mut() };
        // SAFETY: as in `encode`, with the sides exchanged: `target` is borrowed mutably, and `packed` is
        // only read.
        unsafe { self.run::<false>(sides, range) }.outcome()
    }

    /// As [`Translation::encode`], for memory of any origin. Offsets count from `base`, which is null if
    /// they are absolute addresses (`MPI_BOTTOM`).
    ///
    /// # Errors
    /// [`TranslateError::OutOfRange`], [`TranslateError::BadElements`].
    ///
    /// # Safety
    /// The elements of the range must be readable at their places, the bytes of their packed form must be
    /// writable at `packed`, and the two must not overlap. With a null base, the memory must have been
    /// exposed, as memory from C has.
    pub unsafe fn encode_raw(
        &self,
        base: *const u8,
        range: Range<u64>,
        packed: *mut u8,
    ) -> Result<(), TranslateError> {
        self.bytes_of(&range)?;
        // SAFETY: `# Safety` of `encode_raw` is that of `Translation::run`. When encoding, the memory is
        // only read.
        unsafe { self.run::<true>(Sides { memory: base.cast_mut(), packed }, range) }.outcome()
    }

    /// As [`Translation::decode`], for memory of any origin.
    ///
    /// # Errors
    /// As [`Translation::encode_raw`].
    ///
    /// # Safety
    /// As [`Translation::encode_raw`], with the packed side readable and the places of the elements
    /// writable.
    pub unsafe fn decode_raw(
        &self,
        packed: *const u8,
        range: Range<u64>,
        base: *mut u8,
    ) -> Result<(), TranslateError> {
        self.bytes_of(&range)?;
        // SAFETY: `# Safety` of `decode_raw` is that of `Translation::run`. When decoding, the packed side
        // is only read.
        unsafe { self.run::<false>(Sides { memory: base, packed: packed.cast_mut() }, range) }.outcome()
    }

    fn check(&self, memory: usize, range: &Range<u64>, packed: usize) -> Result<(), TranslateError> {
        let (start, end) = self.bytes_of(range)?;
        let expected = end.packed - start.packed;
        if packed as u64 != expected {
            return Err(TypeError::PackedLength { expected, found: packed }.into());
        }
        Ok(check_memory(&self.tiled, memory, &(start.memory..end.memory))?)
    }

    /// # Safety
    /// As [`Job::run`].
    unsafe fn run<const ENCODE: bool>(&self, sides: Sides, range: Range<u64>) -> Misfits {
        let mut job = Job {
            tiled: &self.tiled,
            copies: &self.copies,
            script: &self.script,
            units: &self.units,
            fill: self.fills[usize::from(!ENCODE)],
            sides,
            misfits: Misfits::default(),
        };
        // SAFETY: `# Safety` of `Translation::run` is that of `Job::run`.
        unsafe { job.run::<ENCODE>(range) };
        job.misfits
    }
}

impl Misfits {
    fn outcome(self) -> Result<(), TranslateError> {
        match self.first {
            Some(first) => Err(TranslateError::OutOfRange { first, count: self.count }),
            None => Ok(()),
        }
    }
}

/// The single element that the whole signature repeats; `None` if the signature is empty.
fn only_element(signature: &Signature) -> Result<Option<Prim>, TranslateError> {
    let mut only = None;
    let flow = signature.for_each_run(|prim, _| match only.replace(prim) {
        Some(_) => ControlFlow::Break(()),
        None => ControlFlow::Continue(()),
    });
    if flow.is_break() { Err(TranslateError::Mixed) } else { Ok(only) }
}
