//! Test program: compares random datatypes that MPI and `capulet-datatype` have built. Their bounds must be
//! equal. Packing, unpacking and typed copies must move the same bytes as MPI, whole and in part, and touch
//! no other byte.
//!
//! Usage: `types [CASES]`. Rank r of P takes the cases whose seed is r modulo P, so the ranks together take
//! the same cases with any P. `CAPULET_TEST_SEED` is the seed of the first case. The program prints it. A
//! failure prints the seed of the case that failed.

#[path = "support/mod.rs"]
mod support;

use std::env;
use std::panic;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use capulet_comm::{MpiType, ffi};
use capulet_datatype::Datatype;
use support::Random;
use support::construct::{construct, free};
use support::packing::{Map, Pair, is_open_mpi_5};
use support::spec::Spec;

const CASES: u64 = 6000;
const DEPTH_MAX: u64 = 5;
/// Types that hold at least `SIZE_BYTES_MAX` bytes, or span at least `SPAN_BYTES_MAX`, are not used.
const SIZE_BYTES_MAX: u64 = 1 << 16;
const SPAN_BYTES_MAX: i64 = 1 << 20;

#[derive(Debug, Default)]
struct Tally {
    types: u64,
    packed: u64,
    packed_bytes: u64,
    /// Types that were also compared with `MPI_Unpack`.
    unpacked: u64,
    /// Typed copies from one type to another one.
    copies: u64,
    /// Types that this MPI does not make, or makes wrong.
    refused: u64,
    /// Types whose bounds in this MPI differ from those of `capulet-datatype`, as they may for types that
    /// are not aligned or have parts without data.
    other_bounds: u64,
    /// Types whose bounds and bytes are the same when `capulet-datatype` builds them without MPI.
    same_natively: u64,
}

fn main() {
    let (rank, size) = support::init();
    support::return_errors();
    let number = |text: String| text.parse::<u64>().unwrap_or_else(|_| panic!("{text} is not a number"));
    let first = env::var("CAPULET_TEST_SEED").map_or(0, number);
    let cases = env::args().nth(1).map_or(CASES, number);
    if rank == 0 {
        println!("types: {cases} cases, CAPULET_TEST_SEED={first}");
    }
    say_which_case_fails();
    let mut tally = Tally::default();
    for seed in (first..first + cases).filter(|seed| seed % u64::from(size) == u64::from(rank)) {
        CURRENT.store(seed, Relaxed);
        let case = Case::new(seed);
        if cases == 1 {
            println!("{case:#?}");
        }
        run(case, &mut tally);
    }
    if cases >= CASES {
        tally.judge(cases / u64::from(size));
    }
    if rank == 0 {
        println!("{tally:?}");
    }
    support::finish("types");
}

/// The seed of the case that runs.
static CURRENT: AtomicU64 = AtomicU64::new(0);

/// Makes a panic print how to run its case alone, before the message of the panic.
fn say_which_case_fails() {
    let report = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        eprintln!("to see this case: CAPULET_TEST_SEED={} mpiexec -n 1 types 1", CURRENT.load(Relaxed));
        report(info);
    }));
}

impl Tally {
    /// Asserts that this rank has run about its share of the cases, and that each kind of comparison was
    /// made often enough.
    fn judge(&self, share: u64) {
        assert!(self.types * 10 > share * 8 && self.refused * 10 < share, "{self:?}");
        assert!(self.same_natively * 4 > share && self.other_bounds * 4 < share, "{self:?}");
        assert!(self.packed * 4 > share && self.packed_bytes > share * 100, "{self:?}");
        assert!(self.unpacked * 5 > share && self.copies * 5 > share, "{self:?}");
    }
}

fn is_small(datatype: &Datatype) -> bool {
    let span = datatype.true_ub() - datatype.true_lb() + 3 * datatype.extent().abs();
    datatype.size() < SIZE_BYTES_MAX && span < SPAN_BYTES_MAX && datatype.lb().abs() < SPAN_BYTES_MAX
}

/// A type and the parameters of its test. A failure prints it.
#[derive(Debug)]
struct Case {
    seed: u64,
    spec: Spec,
    count: u64,
    large: bool,
    aligned: bool,
}

impl Case {
    fn new(seed: u64) -> Self {
        let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        for _ in 0..5 {
            random.next();
        }
        let depth = 1 + random.below(DEPTH_MAX) as u32;
        // Aligned types must have the same bounds everywhere. Each MPI library pads the other types in its
        // own way.
        let grain = if random.below(2) == 0 { 16 } else { 1 };
        let spec = Spec::random(&mut random, depth, grain);
        let count = if random.below(8) == 0 { 8 + random.below(60) } else { 1 + random.below(3) };
        Case { seed, spec, count, large: random.below(2) == 1, aligned: grain == 16 }
    }

    /// The random numbers for the parts of the stream and for the contents of memory.
    fn random(&self) -> Random {
        Random(self.seed.wrapping_mul(0xD134_2543_DE82_EF95) | 1)
    }

    /// The number of instances to test, at most `wanted`: as many as this MPI packs correctly and quickly.
    fn count_of(&self, datatype: &Datatype, wanted: u64) -> u64 {
        if cfg!(mpi_family = "openmpi") && self.spec.has_part_without_data() {
            // Open MPI treats some of these types as contiguous, and then packs instances at distances of
            // their size instead of their extent.
            return 1;
        }
        let span = (SPAN_BYTES_MAX / datatype.extent().abs().max(1)) as u64;
        wanted.min(span).min(SIZE_BYTES_MAX / datatype.size().max(1)).max(1)
    }

    /// Whether this MPI can pack the type.
    fn is_packed(&self) -> bool {
        // MPICH divides by the size of a part when it packs, which crashes for a size of 0.
        let crashes = cfg!(mpi_family = "mpich") && self.spec.has_part_without_data();
        !crashes && (self.aligned || !is_open_mpi_5())
    }
}

/// A type that this MPI has made. Dropping the value frees the type.
struct Made {
    case: Case,
    pair: Pair,
}

impl Made {
    /// `None` if this MPI cannot make the type, or makes it wrong.
    fn of(case: Case) -> Option<Self> {
        if cfg!(mpi_family = "openmpi") && case.spec.has_stride_of_minus_one_byte() {
            return None;
        }
        let handle = construct(&case.spec, case.large)?;
        // SAFETY: `# Safety` of `MpiType::datatype_of`: `construct` returns a valid type.
        let datatype = unsafe { MpiType::datatype_of(handle) }.unwrap_or_else(|e| panic!("{e}: {case:?}"));
        Some(Made { case, pair: Pair { handle, datatype } })
    }

    /// Whether the bytes of the type can be compared with those that this MPI packs.
    fn is_packed(&self) -> bool {
        self.case.is_packed() && self.pair.datatype.size() > 0 && is_small(&self.pair.datatype)
    }

    fn map(&self, wanted: u64) -> Map<'_> {
        Map::learn(&self.pair, self.case.count_of(&self.pair.datatype, wanted))
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        free(self.pair.handle);
    }
}

fn run(case: Case, tally: &mut Tally) {
    if !case.spec.native().is_ok_and(|native| is_small(&native)) {
        return;
    }
    let Some(made) = Made::of(case) else {
        tally.refused += 1;
        return;
    };
    tally.types += 1;
    let same_natively = compare_bounds(&made, tally);
    // The description is cached now, and must be the same.
    // SAFETY: `# Safety` of `MpiType::datatype_of`: `made` keeps the type valid.
    let again = unsafe { MpiType::datatype_of(made.pair.handle) }.expect("cached");
    assert!(again.is_equivalent(&made.pair.datatype));
    if made.is_packed() {
        compare_bytes(&made, same_natively, tally);
        compare_built(&made);
        compare_copy(&made, tally);
    }
}

/// Compares the bounds with those that MPI reports. Returns whether `capulet-datatype` computes the same
/// bounds without MPI.
fn compare_bounds(made: &Made, tally: &mut Tally) -> bool {
    let Made { case, pair: Pair { handle, datatype } } = made;
    let native = case.spec.native().expect("the caller has checked it");
    let theirs = MpiBounds::of(*handle);
    let context = || format!("{case:?}\nMPI {theirs:?}\nimported {:?}", datatype.bounds());

    assert_eq!(datatype.size() as i64, theirs.size, "{}", context());
    assert_eq!((datatype.lb(), datatype.extent()), (theirs.lb, theirs.extent), "{}", context());
    if datatype.size() > 0 {
        let true_bounds = (datatype.true_lb(), datatype.true_ub() - datatype.true_lb());
        if cfg!(mpi_family = "mpich") && (case.spec.has_darray() || case.spec.has_part_without_data()) {
            // MPICH includes the bounds of distributed arrays and of parts without data in the true bounds.
            assert!(true_bounds.1 <= theirs.true_extent, "{}", context());
        } else {
            assert_eq!(true_bounds, (theirs.true_lb, theirs.true_extent), "{}", context());
        }
    }
    let mixed = cfg!(mpi_family = "mpich") && case.spec.has_mixed_bounds();
    let padded = case.spec.has_struct_at_odd_address();
    let may_differ = !case.aligned || case.spec.has_part_without_data() || mixed || padded;
    let same_bounds = native.bounds() == datatype.bounds();
    assert!(same_bounds || may_differ, "capulet-datatype computes {:?}: {}", native.bounds(), context());
    tally.other_bounds += u64::from(!same_bounds);
    same_bounds && !may_differ
}

/// Compares the bytes that packing and unpacking move with those that MPI moves.
fn compare_bytes(made: &Made, same_natively: bool, tally: &mut Tally) {
    let Made { case, pair } = made;
    let mut random = case.random();
    let map = made.map(case.count);
    map.check_walks(&mut random);
    map.check_pack(&mut random);
    tally.unpacked += u64::from(map.check_unpack(&mut random));
    tally.packed += 1;
    tally.packed_bytes += map.bytes() as u64;
    if same_natively {
        let native =
            Pair { handle: pair.handle, datatype: case.spec.native().expect("`run` has checked it") };
        Map::learn(&native, case.count_of(&pair.datatype, case.count)).check_pack(&mut random);
        tally.same_natively += 1;
    }
}

/// Builds an MPI type from the description, by the constructors that the description names, and compares it
/// with the original type.
fn compare_built(made: &Made) {
    let Made { case, pair } = made;
    let built = MpiType::build(&pair.datatype).unwrap_or_else(|e| panic!("{e}: {case:?}"));
    assert_eq!(
        MpiBounds::of(built.handle()),
        MpiBounds::of(pair.handle),
        "the bounds of the rebuilt type differ: {case:?}"
    );
    // SAFETY: `# Safety` of `MpiType::known_datatype_of`: `built` keeps the type valid.
    let known = unsafe { MpiType::known_datatype_of(built.handle()) }.expect("valid").expect("described");
    assert!(known.is_equivalent(&pair.datatype));
    let again = Pair { handle: built.handle(), datatype: pair.datatype.clone() };
    Map::learn(&again, case.count_of(&pair.datatype, case.count)).check_pack(&mut case.random());
}

/// Compares typed copies between the type and another random type, in both directions.
fn compare_copy(made: &Made, tally: &mut Tally) {
    let mut random = made.case.random();
    let other = Case::new(random.next());
    let Some(other) = Made::of(other).filter(Made::is_packed) else { return };
    for (from, to) in [(made, &other), (&other, made)] {
        let source = from.map(from.case.count);
        let target = to.map(source.bytes() as u64 / to.pair.datatype.size());
        source.check_copy(&target, &mut random);
        tally.copies += 1;
    }
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
        // SAFETY: the callers pass a valid type. Each call writes to the fields whose pointers it gets.
        unsafe {
            ffi::MPI_Type_size_x(handle, &raw mut bounds.size);
            ffi::MPI_Type_get_extent_x(handle, &raw mut bounds.lb, &raw mut bounds.extent);
            ffi::MPI_Type_get_true_extent_x(handle, &raw mut bounds.true_lb, &raw mut bounds.true_extent);
        }
        bounds
    }
}
