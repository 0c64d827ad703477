//! MPI as the peer: types that its constructors build, and its functions that move them. This is the only
//! module that calls the MPI for datatypes.

use std::ffi::{c_char, c_int};
use std::ptr;

use capulet_comm::{MpiType, ffi};
use capulet_datatype::{ArrayOrder, Datatype};

use crate::spec::Spec;

/// MPI, initialized in this process alone, and finalized when the value is dropped.
#[derive(Debug)]
pub struct Mpi(());

impl Mpi {
    /// Initializes MPI. The process must call this once only.
    ///
    /// # Panics
    /// If MPI fails.
    pub fn start() -> Self {
        // SAFETY: MPI-4.0 section 11.2.1: `MPI_Init` is called once, as this function demands, and both
        // of its arguments may be null.
        check(unsafe { ffi::MPI_Init(ptr::null_mut(), ptr::null_mut()) });
        Self(())
    }

    /// Name and version of the MPI library, in one line.
    ///
    /// # Panics
    /// If MPI fails.
    pub fn library(&self) -> String {
        let mut text = vec![0_u8; ffi::MPI_MAX_LIBRARY_VERSION_STRING as usize];
        let mut len: c_int = 0;
        // SAFETY: MPI-4.0 section 9.1.1: the buffer has `MPI_MAX_LIBRARY_VERSION_STRING` bytes, and `len`
        // outlives the call.
        check(unsafe { ffi::MPI_Get_library_version(text.as_mut_ptr().cast::<c_char>(), &raw mut len) });
        brief(&String::from_utf8_lossy(&text[..len.max(0) as usize]))
    }
}

/// Extracts the name and the version from the text with which a library describes itself.
pub(crate) fn brief(text: &str) -> String {
    let words = text.split_whitespace().map(|word| word.trim_matches(','));
    let words: Vec<&str> = words.collect();
    match words[..] {
        // "Open MPI v4.1.4, package: ...", "MPICH Version: 4.0.2 MPICH Release date: ..."
        ["Open", "MPI", version, ..] => format!("Open MPI {}", version.trim_start_matches('v')),
        ["MPICH", "Version:", version, ..] => format!("MPICH {version}"),
        _ => words.join(" "),
    }
}

/// Blocks of a type, in the form that MPI takes.
#[derive(Debug)]
pub(crate) struct Lists {
    lengths: Vec<c_int>,
    places: Vec<c_int>,
}

impl Lists {
    pub(crate) fn new(lengths: &[u64], places: &[i64]) -> Self {
        assert_eq!(lengths.len(), places.len(), "there must be as many lengths as places");
        Self { lengths: ints(lengths), places: ints(places) }
    }
}

impl Drop for Mpi {
    fn drop(&mut self) {
        // SAFETY: `start` has initialized MPI. Every `PeerType` borrows this value, so no type is used
        // after this call.
        check(unsafe { ffi::MPI_Finalize() });
    }
}

/// Panics if `status` is an error. MPI ends the program at its own errors, so any other status is a
/// broken library.
fn check(status: c_int) {
    assert_eq!(status, 0, "MPI returned an error");
}

fn comm_self() -> ffi::MPI_Comm {
    // SAFETY: mpi-sys defines this static and never changes it.
    unsafe { ffi::RSMPI_COMM_SELF }
}

/// A committed MPI type, freed when the value is dropped.
#[derive(Debug)]
pub(crate) struct PeerType<'a> {
    handle: ffi::MPI_Datatype,
    derived: bool,
    room: Room,
    _mpi: &'a Mpi,
}

/// The memory that a type needs. Calls are checked against it.
#[derive(Debug, Clone, Copy, Default)]
struct Room {
    size: u64,
    true_lb: i64,
    true_ub: i64,
    extent: i64,
}

impl Room {
    fn of(datatype: &Datatype) -> Self {
        Self {
            size: datatype.size(),
            true_lb: datatype.true_lb(),
            true_ub: datatype.true_ub(),
            extent: datatype.extent(),
        }
    }

    /// Panics unless `count` instances lie within `memory_bytes` bytes from offset 0 on and have
    /// `image_bytes` bytes of data.
    fn check(self, count: u64, memory_bytes: usize, image_bytes: usize) {
        let last = count.saturating_sub(1) as i64 * self.extent;
        let (low, high) = (self.true_lb + last.min(0), self.true_ub + last.max(0));
        assert!(low >= 0 && high <= memory_bytes as i64, "the type must lie in the memory");
        assert_eq!(count * self.size, image_bytes as u64, "the image must have the size of the data");
    }
}

impl Drop for PeerType<'_> {
    fn drop(&mut self) {
        if self.derived {
            // SAFETY: a constructor has made the derived type, and the value that owns the handle is
            // dropped here, so the handle is not used again.
            check(unsafe { ffi::MPI_Type_free(&raw mut self.handle) });
        }
    }
}

impl<'a> PeerType<'a> {
    /// Builds and commits a type.
    pub(crate) fn new(mpi: &'a Mpi, spec: &Spec) -> Self {
        let mut made = Self::build(mpi, spec);
        // SAFETY: `build` returns a valid handle. MPI-4.0 section 5.1.9: committing a type that is
        // committed already, as predefined types are, does nothing.
        check(unsafe { ffi::MPI_Type_commit(&raw mut made.handle) });
        made.room = Room::of(&made.import());
        made
    }

    /// Builds and commits the type of `spec` once more. The memory that it needs is taken from `self`
    /// without a query.
    pub(crate) fn again(&self, mpi: &'a Mpi, spec: &Spec) -> Self {
        let mut made = Self::build(mpi, spec);
        // SAFETY: `build` returns a valid handle, as in `new`.
        check(unsafe { ffi::MPI_Type_commit(&raw mut made.handle) });
        made.room = self.room;
        made
    }

    /// A committed indexed type of doubles. Nothing else is done, because this function is timed.
    pub(crate) fn indexed_doubles(mpi: &'a Mpi, lists: &Lists) -> Self {
        let Lists { lengths, places } = lists;
        let double = Self::build(mpi, &Spec::double());
        // SAFETY: mpi-sys defines this static and never changes it.
        let mut handle = unsafe { ffi::RSMPI_DATATYPE_NULL };
        let out = &raw mut handle;
        // SAFETY: both lists have `places.len()` entries, as `Lists::new` asserts, and live during the
        // call. `double` has a valid handle, and `out` points to `handle`.
        check(unsafe {
            ffi::MPI_Type_indexed(int(places.len()), lengths.as_ptr(), places.as_ptr(), double.handle, out)
        });
        // SAFETY: the call above has stored a valid handle at `out`.
        check(unsafe { ffi::MPI_Type_commit(out) });
        Self { handle, derived: true, room: Room::default(), _mpi: mpi }
    }

    fn build(mpi: &'a Mpi, spec: &Spec) -> Self {
        if let Spec::Named(named) = spec {
            let named = MpiType::named(*named).expect("every MPI has the types of the cases");
            return Self { handle: named.handle(), derived: false, room: Room::default(), _mpi: mpi };
        }
        // SAFETY: mpi-sys defines this static and never changes it.
        let mut handle = unsafe { ffi::RSMPI_DATATYPE_NULL };
        let out = &raw mut handle;
        let part = |old: &Spec| Self::build(mpi, old);
        // SAFETY: the parts have valid handles and live until the call has returned. Each list is as long
        // as its count says and lives during the call. `out` points to `handle`.
        check(unsafe {
            match spec {
                Spec::Named(_) => unreachable!("returned above"),
                Spec::Contiguous(count, old) => ffi::MPI_Type_contiguous(int(*count), part(old).handle, out),
                Spec::Vector(count, length, stride, old) => {
                    ffi::MPI_Type_vector(int(*count), int(*length), int(*stride), part(old).handle, out)
                }
                Spec::Hvector(count, length, stride, old) => {
                    let stride = *stride as ffi::MPI_Aint;
                    ffi::MPI_Type_create_hvector(int(*count), int(*length), stride, part(old).handle, out)
                }
                Spec::Indexed(lengths, at, old) => {
                    let (lengths, at) = (ints(lengths), ints(at));
                    let count = int(lengths.len());
                    ffi::MPI_Type_indexed(count, lengths.as_ptr(), at.as_ptr(), part(old).handle, out)
                }
                Spec::IndexedBlock(length, at, old) => {
                    let (at, old) = (ints(at), part(old));
                    let (count, length) = (int(at.len()), int(*length));
                    ffi::MPI_Type_create_indexed_block(count, length, at.as_ptr(), old.handle, out)
                }
                Spec::Struct(at, parts) => {
                    let at: Vec<_> = at.iter().map(|at| *at as ffi::MPI_Aint).collect();
                    let lengths = vec![1; at.len()];
                    let parts: Vec<Self> = parts.iter().map(part).collect();
                    let handles: Vec<_> = parts.iter().map(|part| part.handle).collect();
                    let (lengths, handles) = (lengths.as_ptr(), handles.as_ptr());
                    ffi::MPI_Type_create_struct(int(at.len()), lengths, at.as_ptr(), handles, out)
                }
                Spec::Subarray(sizes, subsizes, starts, order, old) => {
                    let (sizes, subsizes, starts) = (ints(sizes), ints(subsizes), ints(starts));
                    let order = match order {
                        ArrayOrder::C => ffi::MPI_ORDER_C,
                        ArrayOrder::Fortran => ffi::MPI_ORDER_FORTRAN,
                    };
                    let (dims, old) = (int(sizes.len()), part(old));
                    let (sizes, subsizes, starts) = (sizes.as_ptr(), subsizes.as_ptr(), starts.as_ptr());
                    let order = order as c_int;
                    ffi::MPI_Type_create_subarray(dims, sizes, subsizes, starts, order, old.handle, out)
                }
                Spec::Resized(lb, extent, old) => {
                    let (lb, extent) = (*lb as ffi::MPI_Aint, *extent as ffi::MPI_Aint);
                    ffi::MPI_Type_create_resized(part(old).handle, lb, extent, out)
                }
            }
        });
        Self { handle, derived: true, room: Room::default(), _mpi: mpi }
    }

    /// Imports the MPI type as a Capulet type.
    pub(crate) fn import(&self) -> Datatype {
        // SAFETY: `# Safety` of `MpiType::datatype_of`: this value owns a valid datatype.
        unsafe { MpiType::datatype_of(self.handle) }.expect("every type of the cases can be described")
    }

    /// `MPI_Pack` of `count` instances, whose offset 0 is the start of `memory`. Fills `image`.
    ///
    /// # Panics
    /// If the instances do not lie in `memory`, or `image` has another size than their data.
    pub(crate) fn pack(&self, memory: &[u8], count: u64, image: &mut [u8]) {
        self.room.check(count, memory.len(), image.len());
        let mut position: c_int = 0;
        // SAFETY: the type is committed. `Room::check` has shown that all instances lie in `memory` and
        // that `image` has as many bytes as their data.
        check(unsafe {
            ffi::MPI_Pack(
                memory.as_ptr().cast(),
                int(count),
                self.handle,
                image.as_mut_ptr().cast(),
                int(image.len()),
                &raw mut position,
                comm_self(),
            )
        });
    }

    /// `MPI_Unpack`, the reverse of [`PeerType::pack`].
    pub(crate) fn unpack(&self, image: &[u8], count: u64, memory: &mut [u8]) {
        self.room.check(count, memory.len(), image.len());
        let mut position: c_int = 0;
        // SAFETY: as in `pack`: the type is committed, and `Room::check` has checked `memory` and
        // `image`.
        check(unsafe {
            ffi::MPI_Unpack(
                image.as_ptr().cast(),
                int(image.len()),
                &raw mut position,
                memory.as_mut_ptr().cast(),
                int(count),
                self.handle,
                comm_self(),
            )
        });
    }

    /// `MPI_Sendrecv` of this process to itself, from one type to another.
    pub(crate) fn send_to_self(
        &self,
        memory: &[u8],
        count: u64,
        target: &Self,
        into: &mut [u8],
        into_count: u64,
    ) {
        let bytes = (count * self.room.size) as usize;
        self.room.check(count, memory.len(), bytes);
        target.room.check(into_count, into.len(), bytes);
        // SAFETY: as in `pack`, for both types: they are committed, and `Room::check` has checked both
        // memories. The slices do not overlap, because one borrow is shared and the other unique.
        check(unsafe {
            ffi::MPI_Sendrecv(
                memory.as_ptr().cast(),
                int(count),
                self.handle,
                0,
                0,
                into.as_mut_ptr().cast(),
                int(into_count),
                target.handle,
                0,
                0,
                comm_self(),
                ffi::RSMPI_STATUS_IGNORE,
            )
        });
    }
}

fn int<T: TryInto<c_int>>(value: T) -> c_int {
    value.try_into().unwrap_or_else(|_| panic!("the numbers of the cases fit in an int"))
}

fn ints<T: Copy + TryInto<c_int>>(values: &[T]) -> Vec<c_int> {
    values.iter().map(|value| int(*value)).collect()
}
