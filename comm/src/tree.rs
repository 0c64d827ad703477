//! The binomial tree over `size` ranks with root 0. Pure arithmetic.
//!
//! The parent of `v` is `v` without its lowest set bit. The subtree of `v` is the range from `v` to `v`
//! plus its lowest set bit. So the ranks of a subtree are contiguous. The depth of the tree is at most the
//! number of bits of `size - 1`.

/// Up to this many node leaders send their values directly to each other in a reduction, instead of along the
/// tree: k (k - 1) messages at once instead of 2 (k - 1) messages in a chain of 2 ceil(log2 k).
pub const DIRECT_MAX: u32 = 4;

/// How many messages follow one another in a reduction between `nodes` leaders.
pub fn message_times(nodes: u32) -> u64 {
    match nodes {
        0 | 1 => 0,
        2..=DIRECT_MAX => 1,
        _ => 2 * u64::from(u32::BITS - (nodes - 1).leading_zeros()),
    }
}

/// The parent of a rank. `None` for the root.
pub fn parent(rank: u32) -> Option<u32> {
    (rank != 0).then(|| rank & (rank - 1))
}

/// The children of a rank. The child with the smallest subtree comes first.
pub fn children(rank: u32, size: u32) -> impl DoubleEndedIterator<Item = u32> + Clone {
    let bits = if rank == 0 { u32::BITS - 1 } else { rank.trailing_zeros() };
    let count =
        (0..bits).take_while(|bit| rank.checked_add(1 << bit).is_some_and(|child| child < size)).count();
    (0..count as u32).map(move |bit| rank + (1 << bit))
}

/// One past the last rank of the subtree of `rank`.
pub fn subtree_end(rank: u32, size: u32) -> u32 {
    if rank == 0 { size } else { rank.saturating_add(1 << rank.trailing_zeros()).min(size) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rank_but_the_root_is_a_child_of_its_parent() {
        for size in 1..200 {
            let mut messages = 0;
            for rank in 0..size {
                for child in children(rank, size) {
                    assert_eq!(parent(child), Some(rank), "size {size}");
                    messages += 1;
                }
            }
            assert_eq!(messages, size - 1);
        }
    }

    #[test]
    fn subtrees_are_contiguous_and_in_order() {
        for size in 1..200 {
            for rank in 0..size {
                let mut next = rank + 1;
                for child in children(rank, size) {
                    assert_eq!(child, next, "size {size} rank {rank}");
                    next = subtree_end(child, size);
                }
                assert_eq!(next, subtree_end(rank, size), "size {size} rank {rank}");
            }
        }
    }

    #[test]
    fn depth_is_logarithmic() {
        let depth = |mut rank: u32| {
            let mut depth = 0;
            while let Some(parent) = parent(rank) {
                rank = parent;
                depth += 1;
            }
            depth
        };
        assert_eq!((0..1024).map(depth).max(), Some(10));
        assert_eq!((0..7).map(depth).max(), Some(2));
    }
}
