//! Plans: programs as they are kept, by pair of types and by layout.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock, Weak};

use super::align::Pattern;
use super::program::Program;
use crate::layout::Layout;
use crate::overlap::meets_itself;
use crate::piece::Piece;
use crate::tiled::Tiled;

/// How the bytes of a pair are moved.
#[derive(Debug)]
pub(super) struct Plan {
    /// `None`: by walkers.
    pub(super) program: Option<Program>,
}

/// Whether a tiled layout has a repetition for its count; programs of one instance and of many differ in that.
pub(super) fn is_many(tiled: &Tiled) -> bool {
    tiled.count() > 1
}

/// What a tiled layout repeats, whatever its count: `None` without data.
fn pattern(tiled: &Tiled) -> Option<Pattern<'_>> {
    let extent = is_many(tiled).then(|| tiled.layout().extent());
    Some(Pattern { piece: tiled.layout().root()?, extent })
}

/// Any number of consecutive bytes.
fn dense() -> Piece {
    Piece::block(0, i64::MAX as u64)
}

/// The plan of two patterns.
#[cold]
fn plan(source: Option<Pattern<'_>>, target: Option<Pattern<'_>>, phase: u64) -> Plan {
    let patterns = source.zip(target);
    Plan { program: patterns.and_then(|(source, target)| Program::new(source, target, phase)) }
}

/// The plan between a pattern and consecutive bytes: to them, or from them.
fn dense_plan(own: Option<Pattern<'_>>, is_packing: bool) -> Box<Plan> {
    let dense = dense();
    let other = Some(Pattern { piece: &dense, extent: None });
    Box::new(if is_packing { plan(own, other, 0) } else { plan(other, own, 0) })
}

/// What a layout keeps: its plans against consecutive bytes, and which counts of it overlap.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    packing: [OnceLock<Box<Plan>>; 2],
    unpacking: [OnceLock<Box<Plan>>; 2],
    /// The largest count that is known not to overlap itself, and the least one that does, less one and inverted so that
    /// 0 says nothing.
    apart: AtomicU64,
    meeting: AtomicU64,
}

impl Kept {
    /// The plan to copy from `tiled`, of this layout and with data, to consecutive bytes.
    #[inline]
    pub(super) fn packing(&self, tiled: &Tiled) -> &Plan {
        self.packing[usize::from(is_many(tiled))].get_or_init(|| dense_plan(pattern(tiled), true))
    }

    /// The plan to copy consecutive bytes to `tiled`.
    #[inline]
    pub(super) fn unpacking(&self, tiled: &Tiled) -> &Plan {
        self.unpacking[usize::from(is_many(tiled))].get_or_init(|| dense_plan(pattern(tiled), false))
    }

    /// Whether two bytes of `tiled` may lie at one place. Asked again, O(1).
    #[inline]
    pub(super) fn is_meeting(&self, tiled: &Tiled, root: &Piece) -> bool {
        if root.facts.monotone || tiled.count() <= self.apart.load(Relaxed) {
            return false;
        }
        if tiled.count() >= !self.meeting.load(Relaxed) {
            return true;
        }
        self.find_meeting(tiled, root)
    }

    #[cold]
    fn find_meeting(&self, tiled: &Tiled, root: &Piece) -> bool {
        let meets = meets_itself(tiled.layout(), root);
        if meets {
            self.meeting.fetch_max(!tiled.count(), Relaxed);
        } else {
            self.apart.fetch_max(tiled.count(), Relaxed);
        }
        meets
    }
}

/// Pairs that a thread keeps.
const PAIRS: usize = 32;

/// Plans are known by the layouts that they are of. The weak references keep the addresses from being used again.
struct Pair {
    source: Weak<Layout>,
    target: Weak<Layout>,
    are_many: (bool, bool),
    phase: u64,
    plan: Arc<Plan>,
}

impl Pair {
    fn is_of(&self, source: &Tiled, target: &Tiled, phase: u64) -> bool {
        self.phase == phase
            && self.are_many == (is_many(source), is_many(target))
            && std::ptr::eq(self.source.as_ptr(), Arc::as_ptr(source.layout()))
            && std::ptr::eq(self.target.as_ptr(), Arc::as_ptr(target.layout()))
    }
}

thread_local! {
    static KEPT: RefCell<[Option<Pair>; PAIRS]> = const { RefCell::new([const { None }; PAIRS]) };
}

fn slot(source: &Tiled, target: &Tiled, phase: u64) -> usize {
    let address = |tiled: &Tiled| Arc::as_ptr(tiled.layout()).addr() as u64;
    let many = u64::from(is_many(source)) * 2 + u64::from(is_many(target));
    let mixed = address(source)
        .rotate_left(21)
        .wrapping_add(address(target))
        .wrapping_add(phase.rotate_left(42))
        .wrapping_add(many)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 48) as usize % PAIRS
}

/// A plan of a pair that is not kept.
pub(super) fn fresh(source: &Tiled, target: &Tiled, phase: u64) -> Arc<Plan> {
    Arc::new(plan(pattern(source), pattern(target), phase))
}

/// The plan of a pair, of which neither is a single run: kept by this thread, or made.
pub(super) fn of_pair(source: &Tiled, target: &Tiled, phase: u64) -> Arc<Plan> {
    let slot = slot(source, target, phase);
    let found = KEPT.try_with(|kept| {
        let kept = kept.try_borrow().ok()?;
        let pair = kept[slot].as_ref().filter(|pair| pair.is_of(source, target, phase))?;
        Some(pair.plan.clone())
    });
    if let Ok(Some(plan)) = found {
        return plan;
    }
    let plan = fresh(source, target, phase);
    let pair = Pair {
        source: Arc::downgrade(source.layout()),
        target: Arc::downgrade(target.layout()),
        are_many: (is_many(source), is_many(target)),
        phase,
        plan: plan.clone(),
    };
    // A thread that is about to end keeps nothing.
    let _ = KEPT.try_with(|kept| kept.try_borrow_mut().map(|mut kept| kept[slot].replace(pair)));
    plan
}
