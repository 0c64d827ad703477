//! Test program: random datatypes, built by MPI and by us, have the same bounds and pack to the same bytes.
//!
//! Rank r of P takes the seeds that leave r when divided by P: together the ranks see the same types at any P.

#[path = "support/mod.rs"]
mod support;

use std::ffi::{c_int, c_void};

use capulet_comm::{MpiType, ffi};
use capulet_datatype::{Cursor, Datatype, Tiled};
use support::Random;
use support::construct::{construct, free};
use support::spec::Spec;

const SEEDS: u64 = 6000;
/// Types that span more than this are not packed here.
const SPAN_BYTES_MAX: i64 = 1 << 20;

#[derive(Debug, Default)]
struct Tally {
    types: u64,
    packed_bytes: u64,
    /// Types that this MPI does not make, or makes wrong.
    refused: u64,
    /// Types that are not aligned or have parts without data, whose bounds this MPI sees differently.
    other_bounds: u64,
    /// Types whose bounds and bytes are the same when built by our constructors alone.
    same_natively: u64,
}

fn main() {
    let (rank, size) = support::init();
    support::return_errors();
    let mut tally = Tally::default();
    for seed in (0..SEEDS).filter(|seed| seed % u64::from(size) == u64::from(rank)) {
        let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        for _ in 0..5 {
            random.next();
        }
        let depth = 1 + random.below(4) as u32;
        // Aligned types must have the same bounds everywhere; MPIs pad the others each in its own way.
        let grain = if random.below(2) == 0 { 16 } else { 1 };
        let spec = Spec::random(&mut random, depth, grain);
        if spec.native().is_ok_and(|native| is_small(&native)) {
            let count = 1 + random.below(3);
            let large = random.below(2) == 1;
            compare(&Case { spec, seed, count, large, aligned: grain == 16 }, &mut tally);
        }
    }
    // Each rank has about its share.
    let share = SEEDS / u64::from(size);
    assert!(tally.types * 10 > share * 9 && tally.refused * 20 < share, "{tally:?}");
    assert!(tally.same_natively * 4 > share && tally.other_bounds * 4 < share, "{tally:?}");
    assert!(tally.packed_bytes > share * 100, "{tally:?}");
    if rank == 0 {
        println!("{tally:?}");
    }
    support::finish("types");
}

fn is_small(datatype: &Datatype) -> bool {
    let span = datatype.true_ub() - datatype.true_lb() + 3 * datatype.extent().abs();
    datatype.size() < 1 << 16 && span < SPAN_BYTES_MAX && datatype.lb().abs() < SPAN_BYTES_MAX
}

/// Shown when it fails.
#[derive(Debug)]
#[allow(dead_code)]
struct Case {
    spec: Spec,
    seed: u64,
    count: u64,
    large: bool,
    aligned: bool,
}

fn compare(case: &Case, tally: &mut Tally) {
    let Case { ref spec, mut count, large, .. } = *case;
    if cfg!(mpi_family = "openmpi") && spec.has_part_without_data() {
        // Open MPI takes some of these for contiguous, and then packs instances at their size instead of their extent.
        count = 1;
    }
    if cfg!(mpi_family = "openmpi") && spec.has_stride_of_minus_one_byte() {
        tally.refused += 1;
        return;
    }
    let Some(handle) = construct(spec, large) else {
        tally.refused += 1;
        return;
    };
    // SAFETY: valid and committed.
    let imported = unsafe { MpiType::datatype_of(handle) }.unwrap_or_else(|e| panic!("{e}: {case:?}"));
    let native = spec.native().expect("checked by the caller");
    let theirs = MpiBounds::of(handle);
    let context = || format!("{case:?}\nMPI {theirs:?}\nimported {:?}", imported.bounds());

    assert_eq!(imported.size() as i64, theirs.size, "{}", context());
    assert_eq!((imported.lb(), imported.extent()), (theirs.lb, theirs.extent), "{}", context());
    let same_bounds = native.bounds() == imported.bounds();
    if imported.size() > 0 {
        let true_bounds = (imported.true_lb(), imported.true_ub() - imported.true_lb());
        if cfg!(mpi_family = "mpich") && (spec.has_darray() || spec.has_part_without_data()) {
            // MPICH counts the bounds of distributed arrays, and of parts without data, as data.
            assert!(true_bounds.1 <= theirs.true_extent, "{}", context());
        } else {
            assert_eq!(true_bounds, (theirs.true_lb, theirs.true_extent), "{}", context());
        }
    }
    let mixed = cfg!(mpi_family = "mpich") && spec.has_mixed_bounds();
    let may_differ = !case.aligned || spec.has_part_without_data() || mixed;
    assert!(same_bounds || may_differ, "ours {:?}: {}", native.bounds(), context());
    tally.other_bounds += u64::from(!same_bounds);
    // MPICH's packing divides by the size of a part.
    let crashes = cfg!(mpi_family = "mpich") && spec.has_part_without_data();
    let misreads = !case.aligned && is_open_mpi_5();
    if is_small(&imported) && !crashes && !misreads {
        let expected = mpi_pack(handle, &imported, count);
        assert_eq!(our_pack(&imported, count), expected, "{}", context());
        if !may_differ {
            tally.same_natively += 1;
            assert_eq!(our_pack(&native, count), expected, "built by us: {}", context());
        }
        // Built again from its description, by the same constructors.
        let built = MpiType::build(&imported).unwrap_or_else(|e| panic!("{e}: {}", context()));
        assert_eq!(MpiBounds::of(built.handle()), theirs, "built again: {}", context());
        assert_eq!(mpi_pack(built.handle(), &imported, count), expected, "built again: {}", context());
        // SAFETY: valid.
        let known = unsafe { MpiType::known_datatype_of(built.handle()) }.expect("valid").expect("described");
        assert!(known.is_equivalent(&imported));
        tally.packed_bytes += expected.len() as u64;
    }
    // SAFETY: valid; the description is cached now, and must be the same.
    let again = unsafe { MpiType::datatype_of(handle) }.expect("cached");
    assert!(again.is_equivalent(&imported));
    tally.types += 1;
    free(handle);
}

/// Open MPI 5.0 packs other bytes than asked for where elements lie at odd addresses.
fn is_open_mpi_5() -> bool {
    let mut text = vec![0_u8; 8192 + 1];
    let mut length = 0;
    // SAFETY: room for MPI_MAX_LIBRARY_VERSION_STRING characters of every MPI.
    unsafe { ffi::MPI_Get_library_version(text.as_mut_ptr().cast(), &raw mut length) };
    text.starts_with(b"Open MPI v5")
}

#[derive(Debug, PartialEq)]
struct MpiBounds {
    size: i64,
    lb: i64,
    extent: i64,
    true_lb: i64,
    true_extent: i64,
}

impl MpiBounds {
    fn of(handle: ffi::MPI_Datatype) -> Self {
        let mut bounds = MpiBounds { size: 0, lb: 0, extent: 0, true_lb: 0, true_extent: 0 };
        // SAFETY: a valid type; each call writes to the numbers that it is given.
        unsafe {
            ffi::MPI_Type_size_x(handle, &raw mut bounds.size);
            ffi::MPI_Type_get_extent_x(handle, &raw mut bounds.lb, &raw mut bounds.extent);
            ffi::MPI_Type_get_true_extent_x(handle, &raw mut bounds.true_lb, &raw mut bounds.true_extent);
        }
        bounds
    }
}

/// Memory that holds `count` instances, and where in it the base address lies.
fn memory_of(datatype: &Datatype, count: u64) -> (Vec<u8>, usize) {
    let reach = (count as i64 - 1) * datatype.extent();
    let low = datatype.true_lb() + reach.min(0);
    let high = datatype.true_ub() + reach.max(0);
    let room = (-low).max(0) as usize + 64 + high.max(0) as usize + 64 + 16;
    let mut memory = vec![0; room];
    // The base is aligned, so that aligned types are.
    let base = (-low).max(0) as usize + 64;
    let base = base + (16 - (memory.as_ptr().addr() + base) % 16) % 16;
    for (at, byte) in memory.iter_mut().enumerate() {
        *byte = ((at as i64 - base as i64).wrapping_mul(0x9E37_79B1) >> 7) as u8;
    }
    (memory, base)
}

fn mpi_pack(handle: ffi::MPI_Datatype, datatype: &Datatype, count: u64) -> Vec<u8> {
    let (memory, base) = memory_of(datatype, count);
    let mut packed = vec![0; (datatype.size() * count) as usize + 64];
    let mut position: c_int = 0;
    // SAFETY: every byte of `count` instances lies in `memory`, see `memory_of`; the target is long enough.
    let status = unsafe {
        ffi::MPI_Pack(
            memory.as_ptr().add(base).cast::<c_void>(),
            count as c_int,
            handle,
            packed.as_mut_ptr().cast::<c_void>(),
            packed.len() as c_int,
            &raw mut position,
            support::world(),
        )
    };
    assert_eq!(status, 0);
    packed.truncate(position as usize);
    packed
}

fn our_pack(datatype: &Datatype, count: u64) -> Vec<u8> {
    let (memory, base) = memory_of(datatype, count);
    let tiled = Tiled::new(datatype.layout().clone(), count).expect("small");
    let mut cursor = Cursor::new(tiled);
    let mut packed = Vec::new();
    while let Some(run) = cursor.next_run(u64::MAX) {
        let start = (base as i64 + run.offset) as usize;
        packed.extend_from_slice(&memory[start..start + run.len as usize]);
    }
    packed
}
