//! The symbols that the library exports. They are exactly the symbols of `symbols.txt`, and include all file
//! functions that the MPI libraries export.

mod harness;

use std::collections::BTreeSet;
use std::env;
use std::ffi::{CStr, CString, c_int, c_void};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use object::elf;
use object::read::elf::{Dyn, ElfFile64};
use object::{Object, ObjectSymbol};

/// The symbols that a shared library defines and exports.
fn exported(library: &Path) -> BTreeSet<String> {
    let bytes = fs::read(library).unwrap_or_else(|error| panic!("{}: {error}", library.display()));
    let file = object::File::parse(&*bytes).expect("the library is an ELF file");
    let defined = file.dynamic_symbols().filter(|symbol| symbol.is_definition() && symbol.is_global());
    defined.map(|symbol| symbol.name().expect("the name is in ASCII").to_owned()).collect()
}

/// The SONAME of a shared library.
fn soname(library: &Path) -> Option<String> {
    let bytes = fs::read(library).expect("the library can be read");
    let file = ElfFile64::<object::Endianness>::parse(&*bytes).expect("the library is a 64-bit ELF file");
    let (endian, sections) = (file.endian(), file.elf_section_table());
    let (entries, strings) = sections.dynamic(endian, &*bytes).expect("the dynamic section is readable")?;
    let strings = sections.strings(endian, &*bytes, strings).expect("the dynamic section is readable");
    let entry = entries.iter().find(|entry| entry.d_tag(endian) == u64::from(elf::DT_SONAME))?;
    let name = entry.string(endian, strings).expect("the SONAME is a string");
    Some(String::from_utf8_lossy(name).into_owned())
}

/// The symbols in `symbols.txt`.
fn listed() -> BTreeSet<String> {
    let text = include_str!("../symbols.txt");
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(str::to_owned).collect()
}

/// Whether this is a function of MPI 4.1, which the library exports only if the MPI has it.
fn is_of_mpi_4_1(name: &str) -> bool {
    name.contains("MPI_Request_get_status_")
}

#[test]
fn library_exports_exactly_the_listed_symbols() {
    let (exports, mut listed) = (exported(&harness::library()), listed());
    let counts = [
        listed.iter().filter(|name| !name.starts_with("MPIT_")).count(),
        listed.iter().filter(|name| is_of_mpi_4_1(name)).count(),
    ];
    assert_eq!(counts, [227, 6], "the number of symbols in the list");
    let mpi_exports = exported(&mpi_libraries()[0]);
    listed.retain(|name| !is_of_mpi_4_1(name) || mpi_exports.contains(name));
    let missing: Vec<_> = listed.difference(&exports).collect();
    let unlisted: Vec<_> = exports.difference(&listed).collect();
    assert!(missing.is_empty() && unlisted.is_empty(), "missing: {missing:?}; not listed: {unlisted:?}");
}

#[test]
fn header_declares_exactly_the_toolkit_functions() {
    let header = include_str!("../include/capulet_types.h");
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    // A declaration begins in the first column. Comments and continuation lines do not.
    let declared = header.lines().filter(|line| line.starts_with("int ") || line.starts_with("MPIT_"));
    let declared: BTreeSet<String> = declared
        .filter_map(|line| line.split_once('('))
        .map(|(before, _)| before.rsplit(|c| !is_of_name(c)).next().unwrap_or_default().to_owned())
        .collect();
    let listed: BTreeSet<String> = listed().into_iter().filter(|name| name.starts_with("MPIT_")).collect();
    assert_eq!(declared, listed);
}

#[test]
fn list_contains_every_file_function_of_the_standard() {
    let listed = listed();
    let of_c = |name: &&String| name.starts_with("MPI_File_") && !name.contains("errhandler_f");
    let large = listed.iter().filter(of_c).filter(|name| name.ends_with("_c")).count();
    let integers = listed.iter().filter(of_c).filter(|name| name.ends_with("int")).count();
    let plain = listed.iter().filter(of_c).count() - large - integers;
    // MPI 3.1 has 61 functions, MPI 4.0 adds 29 functions with large counts, and MPI 5.0 adds two
    // conversions to integers.
    assert_eq!((plain, large, integers), (61, 29, 2));
    for name in ["MPI_Register_datarep", "MPI_Register_datarep_c", "MPIX_File_create_errhandler_x"] {
        assert!(listed.contains(name) && listed.contains(&format!("P{name}")), "{name}");
    }
    for name in listed.iter().filter(|name| name.starts_with("MPI_") && !name.contains("errhandler_f")) {
        assert!(listed.contains(&format!("P{name}")), "P{name}");
    }
    for name in ["Wait", "Waitany", "Waitall", "Waitsome", "Test", "Testany", "Testall", "Testsome"] {
        assert!(listed.contains(&format!("MPI_{name}")), "MPI_{name}");
    }
}

#[test]
fn soname_is_the_requested_one() {
    assert_eq!(soname(&harness::library()).as_deref(), Some(env!("CAPULET_SONAME_BUILT")));
}

/// The MPI library that the library needs, as the loader finds it, and the Fortran libraries in the same
/// folder.
fn mpi_libraries() -> Vec<PathBuf> {
    unsafe extern "C" fn collect(info: *mut libc::dl_phdr_info, _size: usize, paths: *mut c_void) -> c_int {
        // SAFETY: C contract of `dl_iterate_phdr`: `info` is valid and its name is a C string. `paths` is
        // the pointer that the call below passes.
        let (name, paths) =
            unsafe { (CStr::from_ptr((*info).dlpi_name), &mut *paths.cast::<Vec<PathBuf>>()) };
        paths.push(PathBuf::from(std::ffi::OsStr::from_bytes(name.to_bytes())));
        0
    }
    let path = CString::new(harness::library().as_os_str().as_bytes()).expect("a path has no zero byte");
    // SAFETY: C contract of `dlopen`: the path is a C string. The library has no initialization code of
    // its own.
    let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_LAZY | libc::RTLD_LOCAL) };
    assert!(!handle.is_null(), "the library cannot be loaded: check that the loader finds its MPI");
    let mut loaded: Vec<PathBuf> = Vec::new();
    // SAFETY: C contract of `dl_iterate_phdr`: the callback has the required type, and the data is the
    // vector that it expects.
    unsafe { libc::dl_iterate_phdr(Some(collect), (&raw mut loaded).cast()) };
    let is_mpi = |path: &&PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.starts_with("libmpi.so") || name.starts_with("libmpich.so")
    };
    let main = loaded.iter().find(is_mpi).expect("the library loads an MPI library").clone();
    let folder = main.parent().expect("the path has a parent");
    let is_mpich = main.to_string_lossy().contains("libmpich");
    let fortran: &[&str] =
        if is_mpich { &["libmpichfort.so.12"] } else { &["libmpi_mpifh.so.40", "libmpi_usempif08.so.40"] };
    let fortran = fortran.iter().map(|name| folder.join(name)).filter(|path| path.exists());
    let more = env::var("CAPULET_MPI_LIBRARIES").unwrap_or_default();
    let more: Vec<PathBuf> = more.split(':').filter(|path| !path.is_empty()).map(PathBuf::from).collect();
    std::iter::once(main.clone()).chain(fortran).chain(more).collect()
}

/// Whether Capulet must define this symbol of an MPI library. Otherwise a call would bypass Capulet and
/// reach the files of the MPI library.
fn must_be_defined(name: &str) -> bool {
    let c = [
        "MPI_File_",
        "PMPI_File_",
        "MPIX_File_",
        "PMPIX_File_",
        "MPI_Register_datarep",
        "PMPI_Register_datarep",
    ];
    // The other symbols of the Fortran libraries call the C functions. So do those with f08_, on both
    // MPIs.
    let fortran =
        name.to_ascii_lowercase().contains("mpi_file_create_errhandler") && !name.ends_with("_f08_");
    let through_c = name.ends_with("_f") || name.ends_with("_f08");
    fortran || (c.iter().any(|start| name.starts_with(start)) && !through_c)
}

#[test]
fn library_exports_every_file_function_of_the_mpi_libraries() {
    let exports = exported(&harness::library());
    for library in mpi_libraries() {
        let mpi_exports = exported(&library);
        let missing: Vec<_> =
            mpi_exports.iter().filter(|name| must_be_defined(name) && !exports.contains(*name)).collect();
        assert!(
            missing.is_empty(),
            "{} exports symbols that the library does not export: {missing:?}",
            library.display()
        );
        if !library.to_string_lossy().contains("f08") {
            assert!(
                mpi_exports.iter().any(|name| must_be_defined(name)),
                "{} exports no file function",
                library.display()
            );
        }
    }
}
