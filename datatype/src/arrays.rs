//! The array constructors: subarray and darray (MPI 4.1, sections 5.1.3 and 5.1.4).
//!
//! Both constructors select some indices of a whole array in each dimension. The type map lists the
//! selected elements in the order of the array's memory. The bounds are those of the whole array, and
//! they are explicit.

use crate::bounds::{self, Bounds, Marks, Span};
use crate::build::{finish, repeated, same_length};
use crate::error::{Result, TypeError, overflow};
use crate::order::Order;
use crate::tree::{ArrayOrder, Combiner, Datatype, Distribution};

/// The indices that one dimension selects: `blocks` runs of `block` indices each, `period` indices apart,
/// the first run at index `first`; then one run of `rest` indices, one period after the last whole run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Chosen {
    pub(crate) first: u64,
    pub(crate) block: u64,
    pub(crate) blocks: u64,
    pub(crate) period: u64,
    pub(crate) rest: u64,
}

impl Chosen {
    fn run(first: u64, block: u64) -> Self {
        Self { first, block, blocks: u64::from(block > 0), period: 0, rest: 0 }
    }

    /// Number of selected indices.
    pub(crate) fn len(self) -> u64 {
        self.block * self.blocks + self.rest
    }

    /// The highest selected index. The selection must not be empty.
    fn last(self) -> u64 {
        if self.rest > 0 {
            self.first + self.blocks * self.period + self.rest - 1
        } else {
            self.first + (self.blocks - 1) * self.period + self.block - 1
        }
    }
}

/// One dimension of an array constructor: the selected indices, and the distance between neighbors in
/// bytes.
pub(crate) struct Axis {
    pub(crate) chosen: Chosen,
    pub(crate) stride: i64,
}

/// The axes of a subarray or darray, the fastest first. The constructor of the node has checked that its
/// strides fit.
pub(crate) fn axes(sizes: &[u64], chosen: &[Chosen], order: ArrayOrder, extent: i64) -> Vec<Axis> {
    let mut stride = extent;
    let mut axes = Vec::with_capacity(chosen.len());
    for dim in fastest_first(sizes.len(), order) {
        axes.push(Axis { chosen: chosen[dim], stride });
        stride = stride.wrapping_mul(sizes[dim] as i64);
    }
    axes
}

fn fastest_first(dims: usize, order: ArrayOrder) -> impl Iterator<Item = usize> {
    (0..dims).map(move |i| if order == ArrayOrder::C { dims - 1 - i } else { i })
}

/// The selection of a subarray in each dimension.
pub(crate) fn subarray_choice(subsizes: &[u64], starts: &[u64]) -> Vec<Chosen> {
    starts.iter().zip(subsizes).map(|(&start, &subsize)| Chosen::run(start, subsize)).collect()
}

/// The selection of process `rank` of a darray in each dimension. The process grid is row-major for
/// either order of the array.
pub(crate) fn darray_choice(
    rank: u64,
    gsizes: &[u64],
    distributions: &[Distribution],
    psizes: &[u64],
) -> Vec<Chosen> {
    let mut left = rank;
    let mut chosen: Vec<Chosen> = (0..gsizes.len())
        .rev()
        .map(|dim| {
            let (processes, gsize) = (psizes[dim], gsizes[dim]);
            let place = left % processes;
            left /= processes;
            match distributions[dim] {
                Distribution::None => Chosen::run(0, gsize),
                Distribution::Block(argument) => {
                    block_choice(gsize, place, argument.unwrap_or(gsize.div_ceil(processes)))
                }
                Distribution::Cyclic(argument) => {
                    cyclic_choice(gsize, place, processes, argument.unwrap_or(1))
                }
            }
        })
        .collect();
    chosen.reverse();
    chosen
}

fn block_choice(gsize: u64, place: u64, block: u64) -> Chosen {
    let first = place.saturating_mul(block).min(gsize);
    Chosen::run(first, block.min(gsize - first))
}

fn cyclic_choice(gsize: u64, place: u64, processes: u64, block: u64) -> Chosen {
    let first = place.saturating_mul(block);
    if first >= gsize {
        return Chosen::run(0, 0);
    }
    let Some(period) = block.checked_mul(processes) else {
        return Chosen::run(first, block.min(gsize - first));
    };
    let span = gsize - first;
    let (whole, tail) = (span / period, span % period);
    let (blocks, rest) = if tail >= block { (whole + 1, 0) } else { (whole, tail) };
    if blocks == 0 {
        return Chosen::run(first, rest);
    }
    Chosen { first, block, blocks, period, rest }
}

impl Datatype {
    /// `MPI_Type_create_subarray`: a rectangular part of an array of `sizes` elements.
    ///
    /// # Errors
    /// [`TypeError::LengthMismatch`], [`TypeError::BadSubarray`] (an empty part, a part that leaves the
    /// array, or an array without dimensions), [`TypeError::Overflow`], [`TypeError::TooDeep`].
    pub fn subarray(
        sizes: &[u64],
        subsizes: &[u64],
        starts: &[u64],
        order: ArrayOrder,
        old: &Self,
    ) -> Result<Self> {
        same_length("subsizes", subsizes.len(), sizes.len())?;
        same_length("starts", starts.len(), sizes.len())?;
        if sizes.is_empty() {
            return Err(TypeError::BadSubarray { dim: 0, size: 0, subsize: 0, start: 0 });
        }
        for (dim, ((&size, &subsize), &start)) in sizes.iter().zip(subsizes).zip(starts).enumerate() {
            if subsize == 0 || start.checked_add(subsize).is_none_or(|end| end > size) {
                return Err(TypeError::BadSubarray { dim, size, subsize, start });
            }
        }
        let combiner = Combiner::Subarray {
            sizes: sizes.into(),
            subsizes: subsizes.into(),
            starts: starts.into(),
            order,
            old: old.clone(),
        };
        array(combiner, sizes, &subarray_choice(subsizes, starts), order, old)
    }

    /// `MPI_Type_create_darray`: the part of process `rank` of an array of `gsizes` elements that is
    /// distributed over a grid of `psizes` processes.
    ///
    /// # Errors
    /// [`TypeError::LengthMismatch`], [`TypeError::BadDarray`], [`TypeError::Overflow`],
    /// [`TypeError::TooDeep`].
    pub fn darray(
        rank: u64,
        gsizes: &[u64],
        distributions: &[Distribution],
        psizes: &[u64],
        order: ArrayOrder,
        old: &Self,
    ) -> Result<Self> {
        same_length("distributions", distributions.len(), gsizes.len())?;
        same_length("psizes", psizes.len(), gsizes.len())?;
        check_darray(rank, gsizes, distributions, psizes)?;
        let combiner = Combiner::Darray {
            rank,
            gsizes: gsizes.into(),
            distributions: distributions.into(),
            psizes: psizes.into(),
            order,
            old: old.clone(),
        };
        array(combiner, gsizes, &darray_choice(rank, gsizes, distributions, psizes), order, old)
    }
}

fn check_darray(rank: u64, gsizes: &[u64], distributions: &[Distribution], psizes: &[u64]) -> Result<()> {
    let mut processes = 1_u64;
    for (dim, ((&gsize, &distribution), &psize)) in gsizes.iter().zip(distributions).zip(psizes).enumerate() {
        let bad = |why| Err(TypeError::BadDarray { dim, why });
        if gsize == 0 || psize == 0 {
            return bad("the array and the grid must not be empty");
        }
        match distribution {
            Distribution::None if psize != 1 => {
                return bad("a dimension that is not distributed must have one process");
            }
            Distribution::Block(Some(0)) | Distribution::Cyclic(Some(0)) => {
                return bad("blocks must not be empty");
            }
            Distribution::Block(Some(block)) if block.checked_mul(psize).is_some_and(|all| all < gsize) => {
                return bad("the blocks of all processes do not cover the dimension");
            }
            _ => {}
        }
        processes = processes.checked_mul(psize).map_or_else(|| overflow("the number of processes"), Ok)?;
    }
    if gsizes.is_empty() || rank >= processes {
        return Err(TypeError::BadDarray { dim: 0, why: "the rank is outside the process grid" });
    }
    Ok(())
}

fn array(
    combiner: Combiner,
    sizes: &[u64],
    chosen: &[Chosen],
    order: ArrayOrder,
    old: &Datatype,
) -> Result<Datatype> {
    let extent = old.extent();
    let whole = sizes.iter().try_fold(i128::from(extent), |whole, &size| whole.checked_mul(size.into()));
    let Some(ub) = whole.and_then(|whole| i64::try_from(whole).ok()) else { return overflow("the extent") };
    let (mut copies, mut span, mut elements) = (1_u64, Span::at(0), old.0.order);
    for Axis { chosen, stride } in axes(sizes, chosen, order, extent) {
        if chosen.len() == 0 || copies == 0 {
            copies = 0;
            continue;
        }
        copies = copies.checked_mul(chosen.len()).map_or_else(|| overflow("the number of elements"), Ok)?;
        span = span.ranged(chosen.first, chosen.last(), stride)?;
        elements = along(elements, chosen, stride);
    }
    let signature = repeated(old.signature(), copies)?;
    let mut bounds = Bounds { lb: 0, ub, true_lb: 0, true_ub: 0 };
    if signature.bytes() > 0 {
        (bounds.true_lb, bounds.true_ub) = span.data_bounds(&old.bounds())?;
    } else {
        elements = Order::Empty;
    }
    bounds::check(&bounds)?;
    finish(combiner, bounds, Marks::Explicit, old.0.align, old.0.depth, elements, signature)
}

/// The order of the elements after the dimension `chosen` is added to `order`.
fn along(order: Order, chosen: Chosen, stride: i64) -> Order {
    let at = |index: u64| stride.wrapping_mul(index as i64);
    let period = at(chosen.period);
    let blocks = order.repeated(chosen.block, stride).repeated(chosen.blocks, period);
    let rest =
        order.repeated(chosen.rest, stride).shifted(at(chosen.blocks).wrapping_mul(chosen.period as i64));
    blocks.then(rest).shifted(at(chosen.first))
}

#[cfg(test)]
mod tests {
    use super::{Chosen, block_choice, cyclic_choice};

    fn indices(chosen: Chosen) -> Vec<u64> {
        let block = |k: u64, n: u64| (0..n).map(move |i| chosen.first + k * chosen.period + i);
        (0..chosen.blocks)
            .flat_map(|k| block(k, chosen.block))
            .chain(block(chosen.blocks, chosen.rest))
            .collect()
    }

    #[test]
    fn every_index_belongs_to_exactly_one_process() {
        for gsize in (1..20_u64).step_by(if cfg!(miri) { 6 } else { 1 }) {
            for processes in 1..6_u64 {
                for block in 1..8_u64 {
                    let mut owners = vec![0; gsize as usize];
                    for place in 0..processes {
                        let chosen = cyclic_choice(gsize, place, processes, block);
                        let got = indices(chosen);
                        assert_eq!(got.len() as u64, chosen.len());
                        let expected: Vec<u64> =
                            (0..gsize).filter(|index| index / block % processes == place).collect();
                        assert_eq!(
                            got, expected,
                            "cyclic({block}), process {place} of {processes}, array of {gsize}"
                        );
                        for &index in &got {
                            owners[index as usize] += 1;
                        }
                    }
                    assert!(owners.iter().all(|&n| n == 1));
                    if block * processes >= gsize {
                        let all: Vec<u64> = (0..processes)
                            .flat_map(|place| indices(block_choice(gsize, place, block)))
                            .collect();
                        assert_eq!(all, (0..gsize).collect::<Vec<_>>());
                    }
                }
            }
        }
    }
}
