//! Conversions along the walk of a layout: one pass from places in memory to the packed form, or back.
//!
//! Elements of one kind go directly through a kernel, row by row. Of a strided nest, two dimensions are
//! converted at a time, because rows are often too short for the cost of a step of the walk. Mixed
//! elements, and elements in lists of short runs, pass in parts through a stage that fits in the
//! first-level cache: the copy programs gather them, and one loop converts them.

use std::mem::MaybeUninit;
use std::ops::{ControlFlow, Range};
use std::ptr;

use smallvec::SmallVec;

use crate::copy::TypedCopy;
use crate::error::Result;
use crate::named::Named;
use crate::piece::{Leaf, Piece};
use crate::tiled::Tiled;
use crate::translate::kernel::{Grid, Kernel};
use crate::translate::netcdf::Fill;
use crate::translate::script::{Both, Script};
use crate::translate::unit::{Change, Unit};
use crate::tree::Datatype;
use crate::walk::{Span, Walker};

/// Size of the stage, in bytes.
const STAGE_BYTES: usize = 16 * 1024;
/// If the mean length of the runs of a list is at least this many bytes, the runs are converted one by one.
/// One call for each run then costs less than the way through the stage.
const LONG_RUN_BYTES: u64 = 128;

/// The least space that a block occupies in a cache, in bytes: one line.
const LINE_BYTES: u64 = 64;
/// Size of a second-level cache, in bytes.
const NEAR_BYTES: u64 = 1 << 20;

/// Elements that were out of range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Misfits {
    /// The first of them, counted from the start of the stream.
    pub(super) first: Option<u64>,
    pub(super) count: u64,
}

/// The addresses of the two sides. One side is only read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sides {
    /// Base address of the tiled layout; null if offsets are addresses.
    pub(super) memory: *mut u8,
    /// First byte of the packed range.
    pub(super) packed: *mut u8,
}

/// The copy programs from the stream of a layout to consecutive bytes, and back.
#[derive(Debug, Clone)]
pub(super) struct Copies {
    pack: TypedCopy,
    unpack: TypedCopy,
}

impl Copies {
    pub(super) fn of(tiled: &Tiled) -> Result<Self> {
        let byte = Datatype::named(Named::Byte);
        let flat = Tiled::new(byte.layout().clone(), tiled.size())?;
        let unpack = TypedCopy::new(flat.clone(), tiled.clone());
        Ok(Self { pack: TypedCopy::new(tiled.clone(), flat), unpack })
    }
}

/// One call: the elements, the two sides, and the elements that were out of range.
pub(super) struct Job<'a> {
    pub(super) tiled: &'a Tiled,
    pub(super) copies: &'a Copies,
    pub(super) script: &'a Script,
    pub(super) units: &'a [Unit],
    pub(super) fill: Option<Fill>,
    pub(super) sides: Sides,
    pub(super) misfits: Misfits,
}

/// The elements of a call in which all elements take the same conversion.
#[derive(Clone, Copy)]
struct Uniform<'a> {
    kernel: &'a Kernel,
    /// Bytes of the part of an element that the kernel converts at once.
    part: Both,
    /// Parts per element.
    parts: u64,
    /// Stream bytes before the range of the call.
    start: u64,
}

impl Job<'_> {
    /// Converts the elements of `range`, which must lie within the script: from memory to the packed form,
    /// or back.
    ///
    /// # Safety
    /// The elements of the range must lie in memory at their offsets from the base address, and the packed
    /// side must hold their packed bytes. The side that is read must be readable, the side that is written
    /// must be writable, and the two must not overlap.
    pub(super) unsafe fn run<const ENCODE: bool>(&mut self, range: Range<u64>) {
        let Some(root) = self.tiled.root().filter(|_| !range.is_empty()) else { return };
        if self.sides.memory.is_null() {
            // Offsets from a null base are addresses. The pointer takes the provenance with which their
            // memory was exposed.
            self.sides.memory = ptr::with_exposed_provenance_mut(0);
        }
        let Some(step) = self.script.only_step() else {
            // SAFETY: `run_staged` requires what `# Safety` of this function guarantees, for the same
            // range.
            return unsafe { self.run_staged::<ENCODE>(range) };
        };
        let unit = &self.units[usize::from(step)];
        let (start, end) = (range.start * unit.bytes.memory, range.end * unit.bytes.memory);
        if unit.change == Change::Swap(1) {
            // SAFETY: `# Safety` of this function: both sides hold the elements of the range.
            // `Change::Swap(1)` leaves bytes unchanged, so these are the stream bytes `start..end` on both
            // sides.
            return unsafe { self.copy::<ENCODE>(self.sides.packed, start..end) };
        }
        let kernel = if ENCODE { &unit.encode } else { &unit.decode };
        let part = Both { memory: unit.bytes.memory / unit.parts, packed: unit.bytes.packed / unit.parts };
        let uniform = Uniform { kernel, part, parts: unit.parts, start };
        // SAFETY: `# Safety` of this function: `start..end` are the stream bytes of the range, and all its
        // elements take `kernel`.
        unsafe { self.run_uniform::<ENCODE>(root, uniform, start..end) };
    }

    /// Converts the stream bytes `bytes`: whole planes of a nest at once, and the bytes before and after
    /// them by a walk.
    ///
    /// # Safety
    /// As [`Job::run`].
    unsafe fn run_uniform<const ENCODE: bool>(
        &mut self,
        root: &Piece,
        uniform: Uniform<'_>,
        bytes: Range<u64>,
    ) {
        let (mut head, mut tail) = (bytes.clone(), bytes.end..bytes.end);
        let mut whole = None;
        if let (Leaf::Block(block), [inner, outer, ..]) = (&root.leaf, root.dims.as_slice())
            && block.is_multiple_of(uniform.part.memory)
        {
            let plane = outer.unit * outer.n;
            let planes = bytes.start.div_ceil(plane)..bytes.end / plane;
            if !planes.is_empty() {
                head.end = planes.start * plane;
                tail.start = planes.end * plane;
                let grid = Grid {
                    block: (block / uniform.part.memory) as usize,
                    count: inner.n as usize,
                    stride: inner.stride as isize,
                    rows: outer.n as usize,
                    row_stride: outer.stride as isize,
                    next: root.dims.get(2).map_or(0, |dim| dim.stride as isize),
                    is_far: (planes.end - planes.start).saturating_mul(plane / block * LINE_BYTES)
                        > NEAR_BYTES,
                };
                whole = Some((grid, planes));
            }
        }
        // SAFETY: `# Safety` of this function: the planes are part of `bytes`, and so are `head` and
        // `tail`.
        unsafe {
            self.run_walk::<ENCODE>(root, uniform, head);
            if let Some((grid, planes)) = whole {
                self.run_planes::<ENCODE>(root, uniform, &grid, planes);
            }
            self.run_walk::<ENCODE>(root, uniform, tail);
        }
    }

    /// Converts planes of a nest over blocks. A plane is the two inner dimensions of the nest, at one place
    /// of the others.
    ///
    /// # Safety
    /// As [`Job::run`], for these planes. `grid` must describe a plane.
    unsafe fn run_planes<const ENCODE: bool>(
        &mut self,
        root: &Piece,
        uniform: Uniform<'_>,
        grid: &Grid,
        planes: Range<u64>,
    ) {
        let (plane, outer) = (root.dims[1].unit * root.dims[1].n, &root.dims[2..]);
        let mut places: SmallVec<[u64; 4]> = SmallVec::from_elem(0, outer.len());
        let (mut offset, mut left) = (root.base, planes.start * plane);
        for (place, dim) in places.iter_mut().zip(outer).rev() {
            *place = left / dim.unit;
            left %= dim.unit;
            offset = offset.wrapping_add(dim.stride.wrapping_mul(*place as i64));
        }
        for i in planes {
            // SAFETY: `# Safety` of this function: plane `i` lies at `offset` and holds the stream bytes
            // from `i * plane` on.
            unsafe { self.run_grid::<ENCODE>(uniform, offset, i * plane, grid) };
            for (place, dim) in places.iter_mut().zip(outer) {
                *place += 1;
                offset = offset.wrapping_add(dim.stride);
                if *place < dim.n {
                    break;
                }
                *place = 0;
                offset = offset.wrapping_sub(dim.stride.wrapping_mul(dim.n as i64));
            }
        }
    }

    /// Converts the stream bytes `bytes`, one span at a time.
    ///
    /// # Safety
    /// As [`Job::run`].
    unsafe fn run_walk<const ENCODE: bool>(&mut self, root: &Piece, uniform: Uniform<'_>, bytes: Range<u64>) {
        let part = uniform.part.memory;
        let lists_are_long = root.facts.size / root.facts.blocks >= LONG_RUN_BYTES;
        let mut position = bytes.start;
        let mut walker = Walker::new(root, bytes.start, bytes.end - bytes.start);
        while let Some(span) = walker.next_span() {
            let flow = match span {
                Span::Strided { offset, block, count, stride } if block.is_multiple_of(part) => {
                    let grid = Grid {
                        count: count as usize,
                        stride: stride as isize,
                        ..Grid::dense((block / part) as usize)
                    };
                    // SAFETY: `# Safety` of this function: the spans of the walker are the bytes of the
                    // range, and this span holds the stream bytes from `position` on.
                    unsafe { self.run_grid::<ENCODE>(uniform, offset, position, &grid) };
                    position += block * count;
                    ControlFlow::Continue(())
                }
                lists if lists_are_long => lists.try_for_each(|offset, length| {
                    if !length.is_multiple_of(part) {
                        return ControlFlow::Break(());
                    }
                    let grid = Grid::dense((length / part) as usize);
                    // SAFETY: as for a strided span: the run is part of a span of the walker and holds the
                    // stream bytes from `position` on.
                    unsafe { self.run_grid::<ENCODE>(uniform, offset, position, &grid) };
                    position += length;
                    ControlFlow::Continue(())
                }),
                _ => ControlFlow::Break(()),
            };
            if flow.is_break() {
                // SAFETY: `# Safety` of this function: the bytes from `position` on are the rest of the
                // range.
                return unsafe { self.run_rest::<ENCODE>(uniform, position..bytes.end) };
            }
        }
    }

    /// Converts the last stream bytes of a call through the stage.
    ///
    /// # Safety
    /// As [`Job::run`].
    unsafe fn run_rest<const ENCODE: bool>(&mut self, uniform: Uniform<'_>, bytes: Range<u64>) {
        // The parts of a cut element that are converted already are converted once more, with the same
        // result.
        let element = uniform.part.memory * uniform.parts;
        let start = bytes.start / element * element;
        let packed = self.sides.packed;
        self.sides.packed = self.packed_at(uniform, start);
        // SAFETY: `# Safety` of this function: a call begins at a whole element, so all these elements
        // belong to its range. The packed address is that of the first of them.
        unsafe { self.run_staged::<ENCODE>(start / element..bytes.end / element) };
        self.sides.packed = packed;
    }

    /// The address from which a kernel reads, and the address to which it writes.
    fn ends<const ENCODE: bool>(memory: *mut u8, packed: *mut u8) -> (*const u8, *mut u8) {
        if ENCODE { (memory, packed) } else { (packed, memory) }
    }

    /// The address of the packed form of stream byte `position`.
    fn packed_at(&self, uniform: Uniform<'_>, position: u64) -> *mut u8 {
        let parts = (position - uniform.start) / uniform.part.memory;
        self.sides.packed.wrapping_add((parts * uniform.part.packed) as usize)
    }

    /// # Safety
    /// As [`Job::run`], for the blocks of the grid. The first block lies at `offset` and holds the stream
    /// bytes from `position` on.
    #[inline]
    unsafe fn run_grid<const ENCODE: bool>(
        &mut self,
        uniform: Uniform<'_>,
        offset: i64,
        position: u64,
        grid: &Grid,
    ) {
        let memory = self.sides.memory.wrapping_offset(offset as isize);
        let packed = self.packed_at(uniform, position);
        let (from, to) = Self::ends::<ENCODE>(memory, packed);
        // SAFETY: `# Safety` of this function: the blocks of the grid are valid at `memory`, and their
        // packed form is valid at `packed`, as `Kernel::grid` requires.
        if unsafe { uniform.kernel.grid(from, to, grid) } {
            let mut element = position / uniform.part.memory;
            let mut packed = packed;
            for row in 0..grid.rows {
                for i in 0..grid.count {
                    let stride = grid.stride.wrapping_mul(i as isize);
                    let place = grid.row_stride.wrapping_mul(row as isize).wrapping_add(stride);
                    let memory = memory.wrapping_offset(place);
                    // SAFETY: `# Safety` of this function: the loops visit the blocks of the grid in order,
                    // and this is one of them.
                    unsafe {
                        self.note::<ENCODE>(uniform.kernel, (memory, packed), grid.block, |i| {
                            (element + i) / uniform.parts
                        });
                    }
                    element += grid.block as u64;
                    packed = packed.wrapping_add(grid.block * uniform.part.packed as usize);
                }
            }
        }
    }

    /// Examines converted elements for those out of range. Counts them, and stores the fill value, if there
    /// is one.
    ///
    /// # Safety
    /// As [`Job::run`], for `elements` consecutive elements at both addresses.
    #[cold]
    unsafe fn note<const ENCODE: bool>(
        &mut self,
        kernel: &Kernel,
        (memory, packed): (*mut u8, *mut u8),
        elements: usize,
        index: impl Fn(u64) -> u64,
    ) {
        let (from, to) = Self::ends::<ENCODE>(memory, packed);
        for i in 0..elements {
            // SAFETY: `# Safety` of this function: element `i` is valid on both sides. A fill value is as
            // long as an element that is written.
            unsafe {
                if kernel.misfits(from.wrapping_add(i * kernel.from_bytes)) {
                    self.misfits.count += 1;
                    self.misfits.first.get_or_insert(index(i as u64));
                    if let Some(fill) = self.fill {
                        let bytes = fill.bytes();
                        to.wrapping_add(i * kernel.to_bytes)
                            .copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
                    }
                }
            }
        }
    }

    /// Converts the elements of `range` in parts through the stage. Their packed form begins at the packed
    /// address.
    ///
    /// # Safety
    /// As [`Job::run`].
    unsafe fn run_staged<const ENCODE: bool>(&mut self, range: Range<u64>) {
        let mut stage = [MaybeUninit::<u8>::uninit(); STAGE_BYTES];
        let stage = stage.as_mut_ptr().cast::<u8>();
        let largest = self.units.iter().map(|unit| unit.bytes.memory).max().unwrap_or(1);
        let at_once = (STAGE_BYTES as u64 / largest).max(1);
        let first = self.script.bytes_before(range.start);
        let (mut start, mut before) = (range.start, first);
        while start < range.end {
            let end = range.end.min(start + at_once);
            let after = self.script.bytes_before(end);
            let packed = self.sides.packed.wrapping_add((before.packed - first.packed) as usize);
            let bytes = before.memory..after.memory;
            // SAFETY: `# Safety` of this function: these elements are part of the range. The stage has room
            // for `at_once` elements of the largest size, and holds them in stream order. It is written
            // before it is read: by the copy when encoding, by the kernels when decoding.
            unsafe {
                if ENCODE {
                    self.copy::<true>(stage, bytes.clone());
                }
                self.run_steps::<ENCODE>((stage, packed), start..end);
                if !ENCODE {
                    self.copy::<false>(stage, bytes);
                }
            }
            (start, before) = (end, after);
        }
    }

    /// Converts elements between two dense sides, one run of equal conversions at a time.
    ///
    /// # Safety
    /// As [`Job::run`], with the stage as memory.
    unsafe fn run_steps<const ENCODE: bool>(
        &mut self,
        (mut stage, mut packed): (*mut u8, *mut u8),
        range: Range<u64>,
    ) {
        let (script, units) = (self.script, self.units);
        let mut element = range.start;
        let _ = script.for_each_run(range, &mut |step, elements| {
            let unit = &units[usize::from(step)];
            let kernel = if ENCODE { &unit.encode } else { &unit.decode };
            let (from, to) = Self::ends::<ENCODE>(stage, packed);
            let parts = (elements * unit.parts) as usize;
            // SAFETY: `# Safety` of this function: the runs are, in order, the elements of the range on
            // both sides.
            unsafe {
                if kernel.grid(from, to, &Grid::dense(parts)) {
                    self.note::<ENCODE>(kernel, (stage, packed), parts, |i| element + i / unit.parts);
                }
            }
            let bytes = unit.bytes.times(elements);
            stage = stage.wrapping_add(bytes.memory as usize);
            packed = packed.wrapping_add(bytes.packed as usize);
            element += elements;
            ControlFlow::<()>::Continue(())
        });
    }

    /// Copies stream bytes between memory and a dense place, unchanged.
    ///
    /// # Safety
    /// As [`Job::run`], for these bytes, with `dense` as the packed side.
    unsafe fn copy<const ENCODE: bool>(&self, dense: *mut u8, bytes: Range<u64>) {
        let (start, length) = (bytes.start, bytes.end - bytes.start);
        // SAFETY: `# Safety` of this function: the bytes are valid on both sides, which do not overlap, as
        // `TypedCopy::run` requires.
        unsafe {
            if ENCODE {
                self.copies.pack.run(self.sides.memory, start, dense, 0, length);
            } else {
                self.copies.unpack.run(dense, 0, self.sides.memory, start, length);
            }
        }
    }
}
