//! Reads from an ELF file what the dynamic loader reads: its dependencies, and where to search them.
//! Nothing is executed.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use ::elf::abi;
use ::elf::dynamic::DynamicTable;
use ::elf::endian::AnyEndian;
use ::elf::file::Class;
use ::elf::segment::ProgramHeader;
use ::elf::{ElfStream, ParseError};

/// The processor that an object is for. The loader skips files for another processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Machine {
    class: Class,
    machine: u16,
}

/// The part of an ELF file that decides which libraries are loaded with it.
#[derive(Debug, Clone)]
pub(crate) struct Object {
    /// The processor that the object is for.
    pub(crate) machine: Machine,
    /// Whether the object names a dynamic loader (`PT_INTERP`). A program without one is static, and no
    /// library can be preloaded into it.
    pub(crate) has_loader: bool,
    /// `DT_SONAME`.
    pub(crate) soname: Option<String>,
    /// `DT_NEEDED`, in order.
    pub(crate) needed: Vec<OsString>,
    /// `DT_RPATH`, with `$ORIGIN` and `$LIB` expanded. Empty if a `DT_RUNPATH` overrides it.
    pub(crate) rpath: Vec<PathBuf>,
    /// `DT_RUNPATH`, expanded; `None` if there is none.
    pub(crate) runpath: Option<Vec<PathBuf>>,
    /// Whether `DF_1_NODEFLIB` forbids the search in the system's folders.
    pub(crate) no_default_folders: bool,
}

/// Raw values of the dynamic section. Strings are offsets into the string table.
#[derive(Default)]
struct DynamicEntries {
    strings_address: u64,
    strings_bytes: u64,
    soname: Option<u64>,
    needed: Vec<u64>,
    rpath: Option<u64>,
    runpath: Option<u64>,
    flags_1: u64,
}

impl Object {
    /// A sentence that says why the file is not a readable ELF file.
    pub(crate) fn read(path: &Path) -> Result<Self, String> {
        // Opening a FIFO would block, and opening a folder would give a puzzling error later.
        let metadata = fs::metadata(path).map_err(|cause| cause.to_string())?;
        if !metadata.is_file() {
            return Err("not a regular file".to_owned());
        }
        let file = File::open(path).map_err(|cause| cause.to_string())?;
        let mut stream = ElfStream::<AnyEndian, _>::open_stream(file).map_err(|cause| describe(&cause))?;
        Self::from_stream(&mut stream, path).map_err(|cause| describe(&cause))
    }

    fn from_stream(stream: &mut ElfStream<AnyEndian, File>, path: &Path) -> Result<Self, ParseError> {
        let machine = Machine { class: stream.ehdr.class, machine: stream.ehdr.e_machine };
        let segment = |kind| stream.segments().iter().find(|header| header.p_type == kind).copied();
        let mut object = Self {
            machine,
            has_loader: segment(abi::PT_INTERP).is_some(),
            soname: None,
            needed: Vec::new(),
            rpath: Vec::new(),
            runpath: None,
            no_default_folders: false,
        };
        let Some(dynamic) = segment(abi::PT_DYNAMIC) else { return Ok(object) };
        let entries = DynamicEntries::read(stream, &dynamic)?;
        let strings = read_strings(stream, &entries)?;
        let string = |offset: u64| string_at(&strings, offset);
        object.soname = entries.soname.map(|offset| string(offset).to_string_lossy().into_owned());
        object.needed = entries.needed.iter().map(|&offset| string(offset).to_owned()).collect();
        object.runpath = entries.runpath.map(|offset| expand_path_list(string(offset), path));
        if object.runpath.is_none() {
            object.rpath =
                entries.rpath.map(|offset| expand_path_list(string(offset), path)).unwrap_or_default();
        }
        object.no_default_folders = entries.flags_1 & abi::DF_1_NODEFLIB.cast_unsigned() != 0;
        Ok(object)
    }
}

impl DynamicEntries {
    fn read(stream: &mut ElfStream<AnyEndian, File>, segment: &ProgramHeader) -> Result<Self, ParseError> {
        let (endianness, class) = (stream.ehdr.endianness, stream.ehdr.class);
        let bytes = stream.segment_data(segment)?;
        let mut entries = Self::default();
        for entry in DynamicTable::new(endianness, class, bytes).iter() {
            let value = entry.d_val();
            match entry.d_tag {
                abi::DT_NULL => break,
                abi::DT_STRTAB => entries.strings_address = value,
                abi::DT_STRSZ => entries.strings_bytes = value,
                abi::DT_SONAME => entries.soname = Some(value),
                abi::DT_NEEDED => entries.needed.push(value),
                abi::DT_RPATH => entries.rpath = Some(value),
                abi::DT_RUNPATH => entries.runpath = Some(value),
                abi::DT_FLAGS_1 => entries.flags_1 = value,
                _ => {}
            }
        }
        Ok(entries)
    }
}

/// Reads the dynamic string table. The dynamic section gives its address in memory. The loaded segment
/// that holds the address gives its place in the file.
fn read_strings(
    stream: &mut ElfStream<AnyEndian, File>,
    entries: &DynamicEntries,
) -> Result<Vec<u8>, ParseError> {
    let address = entries.strings_address;
    let holder = stream.segments().iter().find(|header| {
        header.p_type == abi::PT_LOAD
            && address >= header.p_vaddr
            && address - header.p_vaddr <= header.p_filesz
            && entries.strings_bytes <= header.p_filesz - (address - header.p_vaddr)
    });
    let Some(mut table) = holder.copied() else { return Err(ParseError::BadOffset(address)) };
    table.p_offset =
        table.p_offset.checked_add(address - table.p_vaddr).ok_or(ParseError::IntegerOverflow)?;
    table.p_filesz = entries.strings_bytes;
    Ok(stream.segment_data(&table)?.to_vec())
}

/// The string at `offset`. Empty if the offset lies outside of the table; no library has an empty name.
fn string_at(strings: &[u8], offset: u64) -> &OsStr {
    let tail = usize::try_from(offset).ok().and_then(|start| strings.get(start..)).unwrap_or_default();
    OsStr::from_bytes(tail.split(|&byte| byte == 0).next().unwrap_or_default())
}

/// The folders of a `DT_RPATH` or `DT_RUNPATH`, with the loader's variables expanded for the object at
/// `path`.
fn expand_path_list(list: &OsStr, path: &Path) -> Vec<PathBuf> {
    // The loader resolves links to the file itself, except for the last component of a path that it
    // opened. Resolving all links gives the same folder in all but contrived trees.
    let file = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let origin = file.parent().unwrap_or(Path::new("/")).as_os_str().to_string_lossy().into_owned();
    let list = list.to_string_lossy();
    let mut folders = Vec::new();
    for entry in list.split(':').filter(|entry| !entry.is_empty()) {
        let entry = entry.replace("${ORIGIN}", &origin).replace("$ORIGIN", &origin);
        if entry.contains("$LIB") || entry.contains("${LIB}") {
            // The value of $LIB is built into the loader. These are the values in use on 64-bit Linux.
            for lib in ["lib/x86_64-linux-gnu", "lib64", "lib"] {
                folders.push(PathBuf::from(entry.replace("${LIB}", lib).replace("$LIB", lib)));
            }
        } else {
            folders.push(PathBuf::from(entry));
        }
    }
    folders
}

fn describe(cause: &ParseError) -> String {
    match cause {
        ParseError::BadMagic(_) => "not an ELF file".to_owned(),
        ParseError::IOError(cause) => cause.to_string(),
        other => format!("damaged ELF file: {other}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn this_test_needs_the_c_library() {
        let path = std::env::current_exe().expect("the path of this test is known");
        let object = Object::read(&path).expect("the test is an ELF file");
        assert!(object.has_loader);
        assert!(object.needed.iter().any(|name| name == "libc.so.6"), "{:?}", object.needed);
        assert_eq!(object.soname, None);
    }

    #[test]
    fn other_files_than_elf_are_refused() {
        let mut file = tempfile::NamedTempFile::new().expect("a temporary file is created");
        file.write_all(
            b"#!/bin/sh\necho this is a script, longer than an ELF header is, to be sure of the magic\n",
        )
        .expect("the file is written");
        assert_eq!(Object::read(file.path()).expect_err("the file is not an ELF file"), "not an ELF file");
        assert_eq!(
            Object::read(Path::new("/dev/null")).expect_err("not a regular file"),
            "not a regular file"
        );
        assert!(Object::read(Path::new("/nonexistent")).is_err());
    }

    #[test]
    fn damaged_files_give_an_error_and_no_panic() {
        let whole = fs::read("/bin/true").expect("the file is readable");
        let folder = tempfile::tempdir().expect("a temporary folder is created");
        let damaged = folder.path().join("damaged");
        for bytes in [0, 10, 63, 64, 500, whole.len() / 2] {
            fs::write(&damaged, &whole[..bytes]).expect("the file is written");
            assert!(Object::read(&damaged).is_err(), "cut after {bytes} bytes");
        }
        // Damages the file header, the program headers and what they point to. Any result is right,
        // except a panic.
        let mut refused = 0;
        for position in 0..1024 {
            for value in [0x00, 0x7f, 0xff] {
                let mut bytes = whole.clone();
                bytes[position] = value;
                fs::write(&damaged, &bytes).expect("the file is written");
                refused += usize::from(Object::read(&damaged).is_err());
            }
        }
        assert!(refused > 10, "the magic and the offsets are checked, refused: {refused}");
    }

    #[test]
    fn search_paths_are_expanded() {
        let folder = tempfile::tempdir().expect("a temporary folder is created");
        let origin = fs::canonicalize(folder.path()).expect("the path can be resolved");
        let expanded = expand_path_list(OsStr::new("$ORIGIN/../lib:/a::${ORIGIN}"), &origin.join("program"));
        // The file does not exist, so the folder is taken as written.
        assert_eq!(expanded, [origin.join("../lib"), PathBuf::from("/a"), origin]);
    }

    #[test]
    fn strings_outside_the_table_are_empty() {
        assert_eq!(string_at(b"\0libc.so.6\0", 1), "libc.so.6");
        assert_eq!(string_at(b"\0libc.so.6\0", 400), "");
        assert_eq!(string_at(b"abc", 1), "bc");
    }
}
