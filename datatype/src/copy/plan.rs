//! Plans: compiled programs and their caches, by pair of layouts and by layout.

use std::cell::RefCell;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Weak};

use super::align::Pattern;
use super::kept::{Kept, Plan};
use super::program::Program;
use crate::layout::Layout;
use crate::overlap::meets_itself;
use crate::piece::Piece;
use crate::tiled::Tiled;

/// Whether a tiled layout has more than one instance. The program for one instance differs from the
/// program for several.
pub(super) fn is_many(tiled: &Tiled) -> bool {
    tiled.count() > 1
}

/// The pattern that a tiled layout repeats. It does not depend on the count, except for [`is_many`].
/// `None` if the layout has no data.
fn pattern(tiled: &Tiled) -> Option<Pattern<'_>> {
    let extent = is_many(tiled).then(|| tiled.layout().extent());
    Some(Pattern { piece: tiled.layout().root()?, extent })
}

/// A block of consecutive bytes, long enough for any range.
fn dense() -> Piece {
    Piece::block(0, i64::MAX as u64)
}

/// The plan for two patterns.
#[cold]
fn plan(source: Option<Pattern<'_>>, target: Option<Pattern<'_>>, phase: u64) -> Plan {
    let patterns = source.zip(target);
    Plan { program: patterns.and_then(|(source, target)| Program::new(source, target, phase)) }
}

/// The plan from a pattern to consecutive bytes if `is_packing`, and from consecutive bytes to the
/// pattern if not.
fn dense_plan(own: Option<Pattern<'_>>, is_packing: bool) -> Box<Plan> {
    let dense = dense();
    let other = Some(Pattern { piece: &dense, extent: None });
    Box::new(if is_packing { plan(own, other, 0) } else { plan(other, own, 0) })
}

impl Kept {
    /// The plan to copy from `tiled` to consecutive bytes. `tiled` must be of this layout and have data.
    #[inline]
    pub(super) fn packing(&self, tiled: &Tiled) -> &Plan {
        self.packing[usize::from(is_many(tiled))].get_or_init(|| dense_plan(pattern(tiled), true))
    }

    /// The plan to copy from consecutive bytes to `tiled`. `tiled` must be of this layout and have data.
    #[inline]
    pub(super) fn unpacking(&self, tiled: &Tiled) -> &Plan {
        self.unpacking[usize::from(is_many(tiled))].get_or_init(|| dense_plan(pattern(tiled), false))
    }

    /// Whether two stream bytes of `tiled` may lie at the same place. O(1) if the answer for this count
    /// is already known.
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

/// Number of pairs that one thread caches.
const PAIRS: usize = 32;

/// A cached plan, identified by the addresses of its two layouts. The weak references keep the
/// allocations of the layouts alive, so no other layout can get the same address.
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

/// A new plan for the pair, which the thread does not cache.
pub(super) fn fresh(source: &Tiled, target: &Tiled, phase: u64) -> Arc<Plan> {
    Arc::new(plan(pattern(source), pattern(target), phase))
}

/// The plan for a pair in which neither side is a single run: taken from the cache of this thread, or
/// compiled and cached.
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
    // During the destruction of its thread-local values a thread caches nothing.
    let _ = KEPT.try_with(|kept| kept.try_borrow_mut().map(|mut kept| kept[slot].replace(pair)));
    plan
}
