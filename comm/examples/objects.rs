//! Test program: special cases of datatypes, info objects and status objects.

#[path = "support/mod.rs"]
mod support;

use std::ffi::{CString, c_int};
use std::mem::MaybeUninit;
use std::time::Instant;

use capulet_comm::{ErrorClass, MpiType, ffi, info, status};
use capulet_datatype::{Datatype, Named, Prim, PrimKind};
use support::construct::free;

fn main() {
    support::init();
    support::return_errors();
    predefined();
    refused();
    fortran_kinds();
    outlives_its_origin();
    duplicates();
    too_deep_and_too_many();
    cost_when_known();
    nothing_leaks();
    infos();
    statuses();
    support::finish("objects");
}

fn null_type() -> ffi::MPI_Datatype {
    // SAFETY: mpi-sys defines this constant, which is never written.
    unsafe { ffi::RSMPI_DATATYPE_NULL }
}

fn int() -> ffi::MPI_Datatype {
    MpiType::named(Named::Int).expect("every MPI has it").handle()
}

fn contiguous(count: c_int, old: ffi::MPI_Datatype) -> ffi::MPI_Datatype {
    let mut handle = null_type();
    // SAFETY: the callers pass a valid type. MPI writes one handle.
    assert_eq!(unsafe { ffi::MPI_Type_contiguous(count, old, &raw mut handle) }, 0);
    handle
}

fn commit(mut handle: ffi::MPI_Datatype) -> ffi::MPI_Datatype {
    // SAFETY: the callers pass a valid type. MPI writes the handle back unchanged.
    assert_eq!(unsafe { ffi::MPI_Type_commit(&raw mut handle) }, 0);
    handle
}

/// Every predefined type has the size and extent that MPI reports.
fn predefined() {
    let mut known = 0;
    for named in Named::ALL {
        let Some(datatype) = MpiType::named(*named) else { continue };
        let (mut size, mut lb, mut extent) = (0, 0, 0);
        // SAFETY: `datatype` keeps the type valid. Each call writes to the numbers whose pointers it gets.
        unsafe {
            ffi::MPI_Type_size_x(datatype.handle(), &raw mut size);
            ffi::MPI_Type_get_extent_x(datatype.handle(), &raw mut lb, &raw mut extent);
        }
        let ours = datatype.datatype();
        assert_eq!((ours.size() as i64, ours.lb(), ours.extent()), (size, lb, extent), "{}", named.name());
        assert!(datatype.is_predefined());
        assert_eq!(datatype.duplicate().expect("the type itself"), datatype.handle());
        assert_eq!(MpiType::build(ours).expect("the type itself").handle(), datatype.handle());
        known += 1;
    }
    let element = Prim::new(PrimKind::Float, 8);
    let double = MpiType::of_element(element).expect("every MPI has it");
    assert_eq!(double.handle(), MpiType::named(Named::Double).expect("the type exists").handle());
    assert!(MpiType::of_element(Prim::new(PrimKind::Signed, 5)).is_none());
    // A type that has no name in any MPI becomes bytes.
    let opaque = MpiType::build(&Datatype::named(Named::Opaque { bytes: 5 })).expect("five bytes");
    assert!(!opaque.is_predefined() && opaque.datatype().size() == 5);
    assert!(known >= 45, "only {known} types are known");
    assert_eq!(MpiType::byte().datatype().size(), 1);
    assert_eq!(MpiType::of::<f64>().expect("a type").datatype().size(), 8);
    assert_eq!(
        MpiType::of::<i16>().expect("a type").handle(),
        MpiType::named(Named::Int16).expect("the type exists").handle()
    );
}

fn refused() {
    // SAFETY: `# Safety` of `MpiType::import`: the handle is MPI_DATATYPE_NULL or a valid type.
    let class = |handle| unsafe { MpiType::import(handle) }.map(|_| ()).map_err(|error| error.class());
    assert_eq!(class(null_type()), Err(ErrorClass::Type));
    let uncommitted = contiguous(3, int());
    assert_eq!(class(uncommitted), Err(ErrorClass::Type));
    assert_eq!(class(commit(uncommitted)), Ok(()));
    free(uncommitted);
}

fn fortran_kinds() {
    let mut handle = null_type();
    // SAFETY: MPI writes one handle of a predefined type.
    if unsafe { ffi::MPI_Type_create_f90_real(15, 307, &raw mut handle) } != 0 {
        return;
    }
    // SAFETY: `# Safety` of `MpiType::import`: MPI_Type_create_f90_real has returned a valid type.
    let real = unsafe { MpiType::import(handle) }.expect("a Fortran real");
    assert_eq!((real.datatype().size(), real.datatype().extent()), (8, 8));
    assert!(real.is_predefined(), "a Fortran real is predefined");
    let row = commit(contiguous(10, handle));
    // SAFETY: `# Safety` of `MpiType::import`: `row` is a valid type.
    let imported = unsafe { MpiType::import(row) }.expect("a row of Fortran reals");
    assert_eq!(imported.datatype().size(), 80);
    free(row);
}

fn outlives_its_origin() {
    let origin = commit(contiguous(7, int()));
    // SAFETY: `# Safety` of `MpiType::import`: `origin` is a valid type.
    let imported = unsafe { MpiType::import(origin) }.expect("a type");
    let clone = imported.clone();
    free(origin);
    drop(imported);
    let mut size = 0;
    // SAFETY: `clone` keeps the duplicate valid. MPI writes one int.
    assert_eq!(unsafe { ffi::MPI_Type_size(clone.handle(), &raw mut size) }, 0);
    assert_eq!(size, 28);
}

fn duplicates() {
    let origin = commit(contiguous(7, int()));
    // SAFETY: `# Safety` of `MpiType::import`: `origin` is a valid type.
    let imported = unsafe { MpiType::import(origin) }.expect("a type");
    let given = imported.duplicate().expect("a duplicate");
    assert_ne!(given, imported.handle());
    free(origin);
    drop(imported);
    // SAFETY: `# Safety` of `MpiType::import`: `given` is a duplicate that this function owns and has not
    // freed.
    let again = unsafe { MpiType::import(given) }.expect("a type");
    assert_eq!(again.datatype().size(), 28);
    assert!(!again.is_predefined());
    free(given);
}

/// Types that are too deep for the stack or too large for memory are refused.
fn too_deep_and_too_many() {
    let mut tower = contiguous(1, int());
    for _ in 0..2000 {
        let next = contiguous(1, tower);
        free(tower);
        tower = next;
    }
    // SAFETY: `# Safety` of `MpiType::import`: `tower` is a valid type.
    let error = unsafe { MpiType::import(commit(tower)) }.expect_err("2,000 nested constructors are refused");
    assert_eq!(error.class(), ErrorClass::Type);
    free(tower);

    // Each level contains the previous level three times, with another type in between, so that no two
    // adjacent parts have the same handle.
    let mut shared = contiguous(1, int());
    for _ in 0..16 {
        let between = contiguous(2, int());
        let parts = [shared, between, shared, between, shared];
        let mut next = null_type();
        // SAFETY: all parts are valid types, and each list has five entries. MPI writes one handle.
        let status = unsafe {
            let lengths = [1, 1, 1, 1, 1];
            let at: [ffi::MPI_Aint; 5] = [0; 5];
            ffi::MPI_Type_create_struct(5, lengths.as_ptr(), at.as_ptr(), parts.as_ptr(), &raw mut next)
        };
        assert_eq!(status, 0);
        free(shared);
        free(between);
        shared = next;
    }
    // The type is not committed, because Open MPI would expand it at the commit.
    // SAFETY: `# Safety` of `MpiType::import`: `shared` is a valid type.
    let error = unsafe { MpiType::import(shared) }.expect_err("so many constructors are refused");
    assert_eq!(error.class(), ErrorClass::Type);
    free(shared);
}

/// Prints the time of a query for a type that is already described, which is some tens of nanoseconds. The
/// time is not asserted, because it depends on the machine.
fn cost_when_known() {
    let handle = commit(contiguous(5, contiguous_of_pairs()));
    let cost = |handle| {
        let mut best = u128::MAX;
        for _ in 0..20 {
            let start = Instant::now();
            for _ in 0..1000 {
                // SAFETY: `# Safety` of `MpiType::datatype_of`: `handle` is a valid type.
                std::hint::black_box(unsafe { MpiType::datatype_of(handle) }.expect("known"));
            }
            best = best.min(start.elapsed().as_nanos() / 1000);
        }
        best
    };
    let import = |handle| {
        let start = Instant::now();
        for _ in 0..1000 {
            // SAFETY: `# Safety` of `MpiType::import`: `handle` is a valid type.
            drop(unsafe { MpiType::import(handle) }.expect("known"));
        }
        start.elapsed().as_nanos() / 1000
    };
    let (derived, predefined, kept) = (cost(handle), cost(int()), import(handle));
    println!(
        "description: {derived} ns derived, {predefined} ns predefined; import of a derived type {kept} ns"
    );
    free(handle);
}

fn contiguous_of_pairs() -> ffi::MPI_Datatype {
    MpiType::named(Named::DoubleInt).expect("every MPI has it").handle()
}

/// The resident memory of the program, in KiB.
fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux has this file");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("the file has this line");
    line.split_whitespace().nth(1).and_then(|text| text.parse().ok()).expect("the line has a number")
}

/// Descriptions, parts and duplicates are freed with their types: 5,000 leaked types of 1,000 blocks would
/// be 100 MB.
fn nothing_leaks() {
    let lengths: Vec<c_int> = (0..1000).map(|at| 1 + at % 3).collect();
    let at: Vec<c_int> = (0..1000).map(|at| at * 5).collect();
    let cycle = || {
        let mut indexed = null_type();
        // SAFETY: MPI_INT is a valid type, and both lists have 1,000 entries. MPI writes one handle.
        let status =
            unsafe { ffi::MPI_Type_indexed(1000, lengths.as_ptr(), at.as_ptr(), int(), &raw mut indexed) };
        assert_eq!(status, 0);
        let handle = commit(contiguous(2, indexed));
        free(indexed);
        // SAFETY: `# Safety` of `MpiType::import`: `handle` is a valid type.
        let imported = unsafe { MpiType::import(handle) }.expect("a type");
        let expected = 2 * 4 * lengths.iter().sum::<c_int>();
        assert_eq!(imported.datatype().size(), expected as u64);
        free(imported.duplicate().expect("a duplicate"));
        free(handle);
    };
    (0..500).for_each(|_| cycle());
    let before = resident_kib();
    (0..5_000).for_each(|_| cycle());
    let grown = resident_kib().saturating_sub(before);
    assert!(grown < 20 << 10, "the program has grown by {grown} KiB");
}

fn infos() {
    // SAFETY: `# Safety` of `info::pairs_of`: each info object is MPI_INFO_NULL or valid, because this
    // function frees it after its last use. Key and value are C strings.
    unsafe {
        assert_eq!(info::pairs_of(ffi::RSMPI_INFO_NULL).expect("no pairs"), []);
        let pairs: Vec<(String, String)> =
            [("cb_nodes", "4"), ("romio_cb_write", "enable"), ("path", "/a b/ö")]
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .into();
        let mut made = info::new_info(&pairs).expect("an info object");
        assert_eq!(info::pairs_of(made).expect("pairs"), pairs);
        let (key, value) = (CString::new("cb_nodes").expect("text"), CString::new("16").expect("text"));
        ffi::MPI_Info_set(made, key.as_ptr(), value.as_ptr());
        assert!(info::pairs_of(made).expect("pairs").contains(&("cb_nodes".to_owned(), "16".to_owned())));
        ffi::MPI_Info_free(&raw mut made);
        let mut empty = info::new_info(&[]).expect("an info object");
        assert_eq!(info::pairs_of(empty).expect("no pairs"), []);
        ffi::MPI_Info_free(&raw mut empty);
        let too_long = [("k".repeat(4000), "v".to_owned())];
        assert_eq!(
            info::new_info(&too_long).expect_err("a long key is refused").class(),
            ErrorClass::InfoKey
        );
    }
}

fn statuses() {
    let triple = commit(contiguous(3, int()));
    for bytes in [0_u64, 12, 24, 5 << 30] {
        let mut object = MaybeUninit::<ffi::MPI_Status>::zeroed();
        let (mut count, mut elements, mut cancelled) = (-1, -1, -1);
        // SAFETY: `# Safety` of `status::set`: each pointer is valid for a status or MPI_STATUS_IGNORE.
        // `status::set` writes the status before the MPI functions read it. `triple` is a valid type.
        unsafe {
            status::set(object.as_mut_ptr(), bytes).expect("set");
            status::set(ffi::RSMPI_STATUS_IGNORE, bytes).expect("ignored");
            ffi::MPI_Get_elements_x(object.as_ptr(), int(), &raw mut elements);
            ffi::MPI_Test_cancelled(object.as_ptr(), &raw mut cancelled);
            ffi::MPI_Get_count(object.as_ptr(), triple, &raw mut count);
        }
        assert_eq!((elements as u64, cancelled), (bytes / 4, 0));
        if bytes % 12 == 0 {
            assert_eq!(count as u64, bytes / 12);
        }
    }
    let mut object = MaybeUninit::<ffi::MPI_Status>::zeroed();
    // SAFETY: `# Safety` of `status::set`: the pointer is valid for a status.
    let error = unsafe { status::set(object.as_mut_ptr(), u64::MAX) }.expect_err("so many bytes are refused");
    assert_eq!(error.class(), ErrorClass::Count);
    free(triple);
}
