//! The checked constructors (MPI 4.1, section 5.1.2). Each constructor checks its arguments, and checks
//! that sizes and bounds fit in 64 bits, in time linear in its own arguments. Code that uses a finished
//! type can therefore compute byte positions as plain `i64`.

use std::sync::{Arc, OnceLock};

use crate::bounds::{self, Bounds, Collector, Marks, Span};
use crate::error::{Result, TypeError, overflow};
use crate::named::Named;
use crate::order::Order;
use crate::signature::Signature;
use crate::tree::{Combiner, DEPTH_MAX, Datatype, Node};

/// Blocks of one old type. Every constructor except `struct` and the array constructors reduces to such
/// blocks.
struct Parts<'a> {
    old: &'a Datatype,
    collector: Collector,
    order: Order,
    copies: u64,
}

impl<'a> Parts<'a> {
    fn of(old: &'a Datatype) -> Self {
        Self { old, collector: Collector::new(), order: Order::Empty, copies: 0 }
    }

    /// Adds `count` blocks of `blocklength` old elements. The first block lies at byte `displacement`,
    /// and consecutive blocks are `stride` bytes apart.
    fn blocks(&mut self, displacement: i64, count: u64, blocklength: u64, stride: i64) -> Result<()> {
        let old = &self.old.0;
        if count == 0 || blocklength == 0 || old.marks == Marks::Empty {
            return Ok(());
        }
        let span = Span::at(displacement)
            .repeated(blocklength, old.bounds.extent())?
            .repeated(count, if count == 1 { 0 } else { stride })?;
        self.collector.add(&old.bounds, old.marks, old.align, self.old.size() > 0, span);
        let block = old.order.repeated(blocklength, old.bounds.extent());
        self.order = self.order.then(block.repeated(count, stride).shifted(displacement));
        let copies = count.checked_mul(blocklength).and_then(|copies| self.copies.checked_add(copies));
        self.copies = copies.map_or_else(|| overflow("the number of elements"), Ok)?;
        Ok(())
    }

    /// Adds a list of blocks, each of `length(i)` old elements at `displacements[i]` times `unit` bytes.
    fn list(&mut self, length: impl Fn(usize) -> u64, displacements: &[i64], unit: i64) -> Result<()> {
        let old = &self.old.0;
        if old.marks != Marks::Empty
            && let Some(placed) = Placed::rising(self.old, &length, displacements, unit)
                .or_else(|| Placed::list(self.old, &length, displacements, unit))
        {
            if placed.copies > 0 {
                self.collector.add(&old.bounds, old.marks, old.align, self.old.size() > 0, placed.span);
            }
            self.order = self.order.then(placed.order);
            self.copies = placed.copies;
            return Ok(());
        }
        for (i, &displacement) in displacements.iter().enumerate() {
            if length(i) > 0 {
                self.blocks(in_bytes(displacement, unit)?, 1, length(i), 0)?;
            }
        }
        Ok(())
    }

    fn finish(self, combiner: Combiner) -> Result<Datatype> {
        let (bounds, marks) = self.collector.finish()?;
        let signature = repeated(self.old.signature(), self.copies)?;
        finish(combiner, bounds, marks, self.old.0.align, self.old.0.depth, self.order, signature)
    }
}

/// A list of blocks of one old type, evaluated in one pass.
struct Placed {
    /// The displacements at which copies of the old type lie. Meaningless if there are no copies.
    span: Span,
    order: Order,
    copies: u64,
}

/// Number of list entries whose magnitudes are checked before the entries are summed, so that the sum
/// itself needs no overflow checks. The entries stay in the first-level cache between the check and the
/// sum.
const CHECKED: usize = 512;

/// `Some` if `n` times `|by|` is below 2^61, so that the sum of three such products fits in an `i64`.
fn fits(n: u64, by: i64) -> Option<()> {
    n.checked_mul(by.unsigned_abs()).filter(|&product| product < 1 << 61).map(drop)
}

impl Placed {
    /// As [`Placed::list`], for the usual kind of list: blocks that rise from one to the next. Returns
    /// `None` if this list is not of that kind.
    fn rising(
        old: &Datatype,
        length: impl Fn(usize) -> u64,
        displacements: &[i64],
        unit: i64,
    ) -> Option<Self> {
        let extent = old.extent();
        let Order::Rising { first, last } = old.0.order else { return None };
        if extent < 0 || !old.0.order.repeated(2, extent).is_nondecreasing() {
            return None;
        }
        fits(first.unsigned_abs().max(last.unsigned_abs()), 1)?;
        let (mut copies, mut seam) = (0_u64, i64::MIN);
        for (part, places) in displacements.chunks(CHECKED).enumerate() {
            let length = |i: usize| length(part * CHECKED + i);
            // The bitwise or of all numbers is at least as large as each of them.
            let longest = (0..places.len()).fold(0, |bits, i| bits | length(i));
            let farthest = places.iter().fold(0, |bits, place| bits | place.unsigned_abs());
            fits(farthest, unit)?;
            fits(longest, extent.max(CHECKED as i64))?;
            let (mut rising, mut copies_here) = (true, 0);
            for (i, place) in places.iter().enumerate() {
                let n = length(i);
                if n > 0 {
                    let from = place * unit;
                    rising &= seam <= from + first;
                    seam = from + (n - 1) as i64 * extent + last;
                    copies_here += n;
                }
            }
            copies = copies.checked_add(copies_here).filter(|_| rising)?;
        }
        let start = (0..displacements.len()).find(|&i| length(i) > 0).map(|i| displacements[i] * unit)?;
        let order = Order::Rising { first: start + first, last: seam };
        Some(Self { span: Span::between(start, seam - last), order, copies })
    }

    /// Evaluates blocks of `length(i)` old elements at `displacements[i]` times `unit` bytes, in any
    /// order, in one pass of checked 64-bit arithmetic. Returns `None` if the arithmetic overflows. The
    /// type may be valid all the same, so the caller then adds the blocks one by one.
    fn list(old: &Datatype, length: impl Fn(usize) -> u64, displacements: &[i64], unit: i64) -> Option<Self> {
        let extent = old.extent();
        // Distances from the displacement of an old element to its first and its last basic element.
        let (first, last) = match old.0.order {
            Order::Rising { first, last } => (first, last),
            Order::Empty | Order::Falling => (0, 0),
        };
        let repeats = old.0.order.repeated(2, extent).is_nondecreasing();
        let (mut low, mut high, mut copies, mut longest) = (i64::MAX, i64::MIN, 0_u64, 0_u64);
        let (mut rising, mut seam, mut start) = (true, i64::MIN, None);
        for (i, displacement) in displacements.iter().enumerate() {
            let n = length(i);
            if n == 0 {
                continue;
            }
            let from = displacement.checked_mul(unit)?;
            let to = i64::try_from(n - 1).ok()?.checked_mul(extent)?.checked_add(from)?;
            copies = copies.checked_add(n)?;
            longest = longest.max(n);
            (low, high) = (low.min(from).min(to), high.max(from).max(to));
            rising &= seam <= from.checked_add(first)?;
            seam = to.checked_add(last)?;
            start = start.or(Some(from));
        }
        let order = match (old.0.order, start) {
            (Order::Empty, _) | (_, None) => Order::Empty,
            (Order::Rising { .. }, Some(start)) if rising && (longest < 2 || repeats) => {
                Order::Rising { first: start + first, last: seam }
            }
            _ => Order::Falling,
        };
        Some(Self { span: Span::between(low, high), order, copies })
    }
}

/// The signature repeated `n` times, or [`TypeError::Overflow`] if its bytes do not fit in an `i64`.
pub(crate) fn repeated(signature: &Signature, n: u64) -> Result<Signature> {
    match signature.bytes().checked_mul(n) {
        Some(bytes) if i64::try_from(bytes).is_ok() => Ok(signature.repeated(n)),
        _ => overflow("the size"),
    }
}

/// Makes the node of a new type. `order` is [`Order::Empty`] for a type without data.
pub(crate) fn finish(
    combiner: Combiner,
    bounds: Bounds,
    marks: Marks,
    align: u64,
    depth_below: u32,
    order: Order,
    signature: Signature,
) -> Result<Datatype> {
    if depth_below >= DEPTH_MAX {
        return Err(TypeError::TooDeep { limit: DEPTH_MAX });
    }
    let depth = depth_below + 1;
    let layout = OnceLock::new();
    let bounds_are_forced = false;
    let node = Node { combiner, bounds, bounds_are_forced, marks, align, depth, order, signature, layout };
    Ok(Datatype(Arc::new(node)))
}

pub(crate) fn same_length(what: &'static str, found: usize, expected: usize) -> Result<()> {
    if found == expected { Ok(()) } else { Err(TypeError::LengthMismatch { what, expected, found }) }
}

/// The length of `displacement` old elements, in bytes.
fn in_bytes(displacement: i64, extent: i64) -> Result<i64> {
    displacement.checked_mul(extent).map_or_else(|| overflow("a displacement"), Ok)
}

impl Datatype {
    /// A predefined type.
    pub fn named(named: Named) -> Self {
        let mut order = Order::Empty;
        let signature = Signature::concatenated(named.elements().map(|(at, prim)| {
            let here = if prim.bytes == 0 { Order::Empty } else { Order::Rising { first: 0, last: 0 } };
            order = order.then(here.shifted(at as i64));
            Signature::of(prim)
        }));
        let (extent, true_ub) = (named.extent() as i64, named.true_extent() as i64);
        let bounds = Bounds { lb: 0, ub: extent, true_lb: 0, true_ub };
        let marks = if signature.bytes() == 0 { Marks::Empty } else { Marks::Natural };
        Self(Arc::new(Node {
            combiner: Combiner::Named(named),
            bounds,
            bounds_are_forced: false,
            marks,
            align: named.align(),
            depth: 1,
            order,
            signature,
            layout: OnceLock::new(),
        }))
    }

    /// `MPI_Type_dup`: a new node with the same data and bounds as `old`.
    ///
    /// # Errors
    /// [`TypeError::TooDeep`].
    pub fn dup(old: &Self) -> Result<Self> {
        let Node { bounds, marks, align, depth, order, signature, .. } = &*old.0;
        let combiner = Combiner::Dup { old: old.clone() };
        finish(combiner, *bounds, *marks, *align, *depth, *order, signature.clone())
    }

    /// `MPI_Type_contiguous`: `count` elements, one extent apart.
    ///
    /// # Errors
    /// [`TypeError::Overflow`], [`TypeError::TooDeep`].
    pub fn contiguous(count: u64, old: &Self) -> Result<Self> {
        let mut parts = Parts::of(old);
        parts.blocks(0, 1, count, 0)?;
        parts.finish(Combiner::Contiguous { count, old: old.clone() })
    }

    /// `MPI_Type_vector`: `count` blocks of `blocklength` elements, `stride` extents apart.
    ///
    /// # Errors
    /// [`TypeError::Overflow`], [`TypeError::TooDeep`].
    pub fn vector(count: u64, blocklength: u64, stride: i64, old: &Self) -> Result<Self> {
        let stride_bytes = if count > 1 && blocklength > 0 { in_bytes(stride, old.extent())? } else { 0 };
        let mut parts = Parts::of(old);
        parts.blocks(0, count, blocklength, stride_bytes)?;
        parts.finish(Combiner::Vector { count, blocklength, stride, old: old.clone() })
    }

    /// `MPI_Type_create_hvector`: as [`Datatype::vector`], with the stride in bytes.
    ///
    /// # Errors
    /// [`TypeError::Overflow`], [`TypeError::TooDeep`].
    pub fn hvector(count: u64, blocklength: u64, stride_bytes: i64, old: &Self) -> Result<Self> {
        let mut parts = Parts::of(old);
        parts.blocks(0, count, blocklength, stride_bytes)?;
        parts.finish(Combiner::Hvector { count, blocklength, stride_bytes, old: old.clone() })
    }

    /// `MPI_Type_indexed`: blocks with individual lengths, at displacements in extents.
    ///
    /// # Errors
    /// [`TypeError::LengthMismatch`], [`TypeError::Overflow`], [`TypeError::TooDeep`].
    pub fn indexed(blocklengths: &[u64], displacements: &[i64], old: &Self) -> Result<Self> {
        same_length("displacements", displacements.len(), blocklengths.len())?;
        let mut parts = Parts::of(old);
        parts.list(|i| blocklengths[i], displacements, old.extent())?;
        let (blocklengths, displacements) = (blocklengths.into(), displacements.into());
        parts.finish(Combiner::Indexed { blocklengths, displacements, old: old.clone() })
    }

    /// `MPI_Type_create_hindexed`: blocks with individual lengths, at displacements in bytes.
    ///
    /// # Errors
    /// [`TypeError::LengthMismatch`], [`TypeError::Overflow`], [`TypeError::TooDeep`].
    pub fn hindexed(blocklengths: &[u64], displacements_bytes: &[i64], old: &Self) -> Result<Self> {
        same_length("displacements", displacements_bytes.len(), blocklengths.len())?;
        let mut parts = Parts::of(old);
        parts.list(|i| blocklengths[i], displacements_bytes, 1)?;
        let (blocklengths, displacements_bytes) = (blocklengths.into(), displacements_bytes.into());
        parts.finish(Combiner::Hindexed { blocklengths, displacements_bytes, old: old.clone() })
    }

    /// `MPI_Type_create_indexed_block`: blocks of one common length, at displacements in extents.
    ///
    /// # Errors
    /// [`TypeError::Overflow`], [`TypeError::TooDeep`].
    pub fn indexed_block(blocklength: u64, displacements: &[i64], old: &Self) -> Result<Self> {
        let mut parts = Parts::of(old);
        parts.list(|_| blocklength, displacements, old.extent())?;
        let displacements = displacements.into();
        parts.finish(Combiner::IndexedBlock { blocklength, displacements, old: old.clone() })
    }

    /// `MPI_Type_create_hindexed_block`: blocks of one common length, at displacements in bytes.
    ///
    /// # Errors
    /// [`TypeError::Overflow`], [`TypeError::TooDeep`].
    pub fn hindexed_block(blocklength: u64, displacements_bytes: &[i64], old: &Self) -> Result<Self> {
        let mut parts = Parts::of(old);
        parts.list(|_| blocklength, displacements_bytes, 1)?;
        let displacements_bytes = displacements_bytes.into();
        parts.finish(Combiner::HindexedBlock { blocklength, displacements_bytes, old: old.clone() })
    }

    /// `MPI_Type_create_struct`: blocks with individual types and lengths, at displacements in bytes. The
    /// upper bound is padded to the strictest alignment of an element, unless a type in the struct has
    /// explicit bounds.
    ///
    /// # Errors
    /// [`TypeError::LengthMismatch`], [`TypeError::Overflow`], [`TypeError::TooDeep`].
    pub fn structure(blocklengths: &[u64], displacements_bytes: &[i64], types: &[Self]) -> Result<Self> {
        same_length("displacements", displacements_bytes.len(), blocklengths.len())?;
        same_length("types", types.len(), blocklengths.len())?;
        let (mut collector, mut order, mut signatures) = (Collector::new(), Order::Empty, Vec::new());
        let (mut align, mut depth, mut bytes, mut from) = (1, 0, 0_u64, 0);
        // Consecutive entries of one type are evaluated as one list.
        for group in types.chunk_by(|left, right| Arc::ptr_eq(&left.0, &right.0)) {
            let (old, to) = (&group[0], from + group.len());
            depth = depth.max(old.0.depth);
            if old.0.marks != Marks::Empty {
                let mut parts = Parts { old, collector, order: Order::Empty, copies: 0 };
                parts.list(|i| blocklengths[from + i], &displacements_bytes[from..to], 1)?;
                collector = parts.collector;
                if old.size() > 0 && parts.copies > 0 {
                    align = align.max(old.0.align);
                    order = order.then(parts.order);
                    let signature = repeated(old.signature(), parts.copies)?;
                    bytes = bytes.saturating_add(signature.bytes());
                    signatures.push(signature);
                }
            }
            from = to;
        }
        if i64::try_from(bytes).is_err() {
            return overflow("the size");
        }
        let (bounds, marks) = collector.finish()?;
        let combiner = Combiner::Struct {
            blocklengths: blocklengths.into(),
            displacements_bytes: displacements_bytes.into(),
            types: types.into(),
        };
        finish(combiner, bounds, marks, align, depth, order, Signature::concatenated(signatures))
    }

    /// `MPI_Type_create_resized`: the same data with explicit bounds, in bytes.
    ///
    /// # Errors
    /// [`TypeError::Overflow`], [`TypeError::TooDeep`].
    pub fn resized(lb: i64, extent: i64, old: &Self) -> Result<Self> {
        let bounds = forced(old, lb, extent)?;
        let Node { align, depth, order, signature, .. } = &*old.0;
        let combiner = Combiner::Resized { lb, extent, old: old.clone() };
        finish(combiner, bounds, Marks::Explicit, *align, *depth, *order, signature.clone())
    }

    /// The same type with the lower bound and extent that another MPI library reports for it, in bytes.
    /// Libraries differ in the bounds of some types (mostly types without data), and a type that is built
    /// on this one must follow the library in use. Unlike [`Datatype::resized`], this function is not a
    /// constructor and leaves no node in the tree. Bounds that differ from the type's own bounds count as
    /// explicit.
    ///
    /// # Errors
    /// [`TypeError::Overflow`].
    pub fn with_bounds(&self, lb: i64, extent: i64) -> Result<Self> {
        if self.lb() == lb && self.extent() == extent {
            return Ok(self.clone());
        }
        self.forced(lb, extent)
    }

    /// As [`Datatype::with_bounds`], but the bounds become explicit even if they equal the bounds of the
    /// type.
    pub(crate) fn forced(&self, lb: i64, extent: i64) -> Result<Self> {
        let bounds = forced(self, lb, extent)?;
        Ok(Self(Arc::new(Node {
            bounds,
            bounds_are_forced: true,
            marks: Marks::Explicit,
            layout: OnceLock::new(),
            ..(*self.0).clone()
        })))
    }
}

fn forced(old: &Datatype, lb: i64, extent: i64) -> Result<Bounds> {
    let Some(ub) = lb.checked_add(extent) else { return overflow("the upper bound") };
    let bounds = Bounds { lb, ub, ..old.bounds() };
    bounds::check(&bounds)?;
    Ok(bounds)
}
