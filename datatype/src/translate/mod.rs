//! *Translate*: conversion between memory and a portable format, fused into the copy (Ross et al., *Processing MPI Datatypes
//! Outside MPI*, 4.2).
//!
//! Two formats: the external types of netCDF's classic files, and MPI's `external32`. Elements are gathered and converted in one
//! pass; nothing is packed in native form first.
//!
//! | module | |
//! |---|---|
//! | `number`, `quad`, `convert` | what happens to one element |
//! | `netcdf`, `external32` | which elements take which conversion |
//! | `script`, `unit` | the conversions of a whole type, as a value |
//! | `kernel` | the loops: the only file that turns addresses into elements |
//! | `engine` | the walk |
//!
//! Budget for B bytes of memory: each read or written once, each packed byte written or read once; no buffer for elements of one
//! kind, a stage of 16 KiB for mixed ones. Elements that are out of range cost a second look at the row that they are in.

// What a kernel calls must become part of it, for it is compiled for one instruction set.
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
/// Ranges count basic elements, in the order of the type map, over all instances. A complex number is one element, a value with
/// its index is two.
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
    /// What is stored for elements that are out of range, when encoding and when decoding.
    fills: [Option<Fill>; 2],
}

impl Translation {
    /// Elements of one kind as a netCDF variable of type `external`, exactly as netCDF converts them (seed paper 4.2; netCDF
    /// User's Guide, *Type Conversion*). A value is out of range if it is below the least or above the largest value of the
    /// other type; for reals, both compared as `double`. So infinities are out of the range of another real type when they are
    /// written, and what is no number never is.
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
        // The size in memory is checked, the file's may be eight times as much.
        let elements = tiled.size() / u64::from(prim.bytes);
        if elements > i64::MAX as u64 / unit.bytes.packed {
            return Err(TypeError::Overflow { what: "the size of all external elements" }.into());
        }
        let script = Script::run(0, elements, unit.bytes);
        Self::new(tiled, script, vec![unit], true)
    }

    /// Elements of any kinds in `external32` (MPI 4.1, 14.5.2). Out of range are a `long` that does not fit into 4 bytes, a wide
    /// character that does not fit into 2, and, when decoding, a number beyond `long double`: the standard leaves open what a
    /// conversion does then; it is an error here (`MPI_ERR_CONVERSION`), after all has been converted.
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

    /// What elements that are out of range become; [`OutOfRange::Cast`] unless this is called.
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

    /// Stores `value`, one element in the form of the file (a variable's `_FillValue`), for elements that are out of range when
    /// encoding. What is stored when decoding stays the same.
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

    /// The change of a variable whose elements are converted, and not only put in order.
    fn cast(&self) -> Option<Change> {
        match self.units.as_slice() {
            [unit] if self.is_netcdf && matches!(unit.change, Change::Cast(..)) => Some(unit.change),
            _ => None,
        }
    }

    /// What is converted.
    pub fn tiled(&self) -> &Tiled {
        &self.tiled
    }

    /// The number of basic elements in all instances.
    pub fn elements(&self) -> u64 {
        self.script.elements
    }

    /// Bytes that the elements of `range` have in the packed form; for `external32` and the whole range, what
    /// `MPI_Pack_external_size` gives.
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

    /// Converts the elements of `range` from `source`, in which the first byte has offset 0, into `packed`, which must be as
    /// long as [`Translation::packed_bytes`] says.
    ///
    /// # Errors
    /// [`TranslateError::OutOfRange`] when all has been converted. [`TranslateError::BadElements`],
    /// [`TypeError::PackedLength`], [`TypeError::OutOfMemory`]; nothing is converted then.
    pub fn encode(&self, source: &[u8], range: Range<u64>, packed: &mut [u8]) -> Result<(), TranslateError> {
        self.check(source.len(), &range, packed.len())?;
        let sides = Sides { memory: source.as_ptr().cast_mut(), packed: packed.as_mut_ptr() };
        // SAFETY: `check` has shown that both slices hold the elements; a shared and a unique borrow do not overlap, and
        // what was borrowed shared is only read.
        unsafe { self.run::<true>(sides, range) }.outcome()
    }

    /// The reverse of [`Translation::encode`]. No byte of `target` is written but those of the elements.
    ///
    /// # Errors
    /// As [`Translation::encode`].
    pub fn decode(&self, packed: &[u8], range: Range<u64>, target: &mut [u8]) -> Result<(), TranslateError> {
        self.check(target.len(), &range, packed.len())?;
        let sides = Sides { memory: target.as_mut_ptr(), packed: packed.as_ptr().cast_mut() };
        // SAFETY: as in `encode`, with the sides exchanged.
        unsafe { self.run::<false>(sides, range) }.outcome()
    }

    /// As [`Translation::encode`], for memory of any origin: offsets count from `base`, which is null where they are absolute
    /// addresses (`MPI_BOTTOM`).
    ///
    /// # Errors
    /// [`TranslateError::OutOfRange`], [`TranslateError::BadElements`].
    ///
    /// # Safety
    /// The elements of the range must be readable at their places, the bytes of their packed form be writable at `packed`, and
    /// the two be apart. With a null base, the memory must have been exposed, as memory from C has.
    pub unsafe fn encode_raw(
        &self,
        base: *const u8,
        range: Range<u64>,
        packed: *mut u8,
    ) -> Result<(), TranslateError> {
        self.bytes_of(&range)?;
        // SAFETY: the caller's promise; the memory is only read.
        unsafe { self.run::<true>(Sides { memory: base.cast_mut(), packed }, range) }.outcome()
    }

    /// As [`Translation::decode`], for memory of any origin.
    ///
    /// # Errors
    /// As [`Translation::encode_raw`].
    ///
    /// # Safety
    /// As [`Translation::encode_raw`], with the packed side readable and the places of the elements writable.
    pub unsafe fn decode_raw(
        &self,
        packed: *const u8,
        range: Range<u64>,
        base: *mut u8,
    ) -> Result<(), TranslateError> {
        self.bytes_of(&range)?;
        // SAFETY: the caller's promise; the packed side is only read.
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
        // SAFETY: the caller's promise.
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

/// The element that all of a signature is made of; nothing if it has none.
fn only_element(signature: &Signature) -> Result<Option<Prim>, TranslateError> {
    let mut only = None;
    let flow = signature.for_each_run(|prim, _| match only.replace(prim) {
        Some(_) => ControlFlow::Break(()),
        None => ControlFlow::Continue(()),
    });
    if flow.is_break() { Err(TranslateError::Mixed) } else { Ok(only) }
}
