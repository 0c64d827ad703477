//! Repeats the search of the dynamic loader: finds the files of a program's dependencies, and which of
//! them are MPI libraries. `ldd` would run the program's loader; this module executes nothing of the
//! program.
//!
//! The search leaves out the `glibc-hwcaps` subfolders, in which no MPI is installed.

use std::collections::{HashMap, HashSet, VecDeque};
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::elf::{Machine, Object};
use crate::mpi::{self, MpiLibrary};

const DEFAULT_FOLDERS: [&str; 4] = ["/lib64", "/usr/lib64", "/lib", "/usr/lib"];

/// The places in which libraries are searched, apart from those that each file names itself.
#[derive(Debug)]
pub(crate) struct Loader {
    library_path: Vec<PathBuf>,
    preloaded: Vec<OsString>,
    cache: HashMap<OsString, Vec<PathBuf>>,
}

/// A file whose dependencies are still to be searched, with the `DT_RPATH` folders that it inherits.
struct Pending {
    object: Object,
    inherited_rpath: Vec<PathBuf>,
}

impl Loader {
    /// The loader as it works for the program that this process turns into: with this environment and the
    /// system's cache.
    pub(crate) fn of_this_process() -> Self {
        Self {
            library_path: env::var_os("LD_LIBRARY_PATH")
                .map(|list| split_library_path(&list))
                .unwrap_or_default(),
            preloaded: env::var_os("LD_PRELOAD").map(|list| split_preload(&list)).unwrap_or_default(),
            cache: system_cache(),
        }
    }

    /// The MPI libraries that are loaded into a process with the program at `path`. Each appears once, in
    /// the order in which they are found. Libraries that `LD_PRELOAD` brings are included.
    ///
    /// # Errors
    /// A sentence that says why the program itself cannot be read. Dependencies that cannot be read are
    /// left out unless they are MPI libraries, because the loader reports them itself.
    pub(crate) fn mpi_libraries(&self, path: &Path) -> Result<Vec<MpiLibrary>, String> {
        let root = Object::read(path)?;
        let machine = root.machine;
        let mut found: Vec<MpiLibrary> = Vec::new();
        let mut asked: HashSet<OsString> = HashSet::new();
        let mut visited: HashSet<PathBuf> = HashSet::new();
        let mut queue = VecDeque::from([Pending { object: root, inherited_rpath: Vec::new() }]);
        let mut preloaded: Vec<OsString> = self.preloaded.clone();
        while let Some(pending) = queue.pop_front() {
            // The loader searches preloaded libraries on behalf of the program, before the program's own
            // dependencies.
            let names: Vec<OsString> =
                preloaded.drain(..).chain(pending.object.needed.iter().cloned()).collect();
            let rpath: Vec<PathBuf> =
                pending.object.rpath.iter().chain(&pending.inherited_rpath).cloned().collect();
            for name in names {
                if name.is_empty() || !asked.insert(name.clone()) {
                    continue;
                }
                let Some((file, object)) = self.find(&name, &pending.object, &rpath, machine) else {
                    note_missing(&mut found, &name);
                    continue;
                };
                if !visited.insert(fs::canonicalize(&file).unwrap_or_else(|_| file.clone())) {
                    continue;
                }
                let soname = object.soname.clone().unwrap_or_else(|| file_name(&file));
                if mpi::flavor(&soname).is_some() {
                    // The dependencies of an MPI library do not matter.
                    found.push(MpiLibrary { soname, path: Some(file) });
                } else {
                    queue.push_back(Pending { object, inherited_rpath: rpath.clone() });
                }
            }
        }
        Ok(found)
    }

    /// The first file named `name` that is for `machine`, as the loader finds it for a program that names
    /// no folders of its own.
    pub(crate) fn find_for(&self, name: &str, machine: Machine) -> Option<PathBuf> {
        self.candidates(OsStr::new(name), &[], &[], false).find(|path| fits(path, machine).is_some())
    }

    /// The first readable ELF file named `name` in the folders of the environment and of the system.
    pub(crate) fn find_any(&self, name: &str) -> Option<PathBuf> {
        self.candidates(OsStr::new(name), &[], &[], false).find(|path| Object::read(path).is_ok())
    }

    /// Searches `name` on behalf of `requester`, whose own and inherited `DT_RPATH` folders are `rpath`.
    fn find(
        &self,
        name: &OsStr,
        requester: &Object,
        rpath: &[PathBuf],
        machine: Machine,
    ) -> Option<(PathBuf, Object)> {
        if name.as_bytes().contains(&b'/') {
            let path = PathBuf::from(name);
            return fits(&path, machine).map(|object| (path, object));
        }
        let runpath = requester.runpath.as_deref();
        let rpath = if runpath.is_some() { &[] } else { rpath };
        self.candidates(name, rpath, runpath.unwrap_or_default(), requester.no_default_folders)
            .find_map(|path| fits(&path, machine).map(|object| (path, object)))
    }

    /// Every path at which the loader looks for `name`, in the order of its search.
    fn candidates<'a>(
        &'a self,
        name: &'a OsStr,
        rpath: &'a [PathBuf],
        runpath: &'a [PathBuf],
        no_default_folders: bool,
    ) -> impl Iterator<Item = PathBuf> + 'a {
        let cached = self.cache.get(name).map(Vec::as_slice).unwrap_or_default();
        let defaults: &[&str] = if no_default_folders { &[] } else { &DEFAULT_FOLDERS };
        let named =
            rpath.iter().chain(&self.library_path).chain(runpath).map(move |folder| folder.join(name));
        named
            .chain(cached.iter().cloned())
            .chain(defaults.iter().map(move |folder| Path::new(folder).join(name)))
    }
}

fn fits(path: &Path, machine: Machine) -> Option<Object> {
    Object::read(path).ok().filter(|object| object.machine == machine)
}

/// Adds an MPI library that is needed but not found. Its name still tells which MPI the program uses.
fn note_missing(found: &mut Vec<MpiLibrary>, name: &OsStr) {
    let soname = file_name(Path::new(name));
    if mpi::flavor(&soname).is_some() {
        found.push(MpiLibrary { soname, path: None });
    }
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// The folders of `LD_LIBRARY_PATH`, which colons or semicolons separate. An empty entry is the current
/// folder.
fn split_library_path(list: &OsStr) -> Vec<PathBuf> {
    if list.is_empty() {
        return Vec::new();
    }
    let entries = list.as_bytes().split(|&byte| byte == b':' || byte == b';');
    entries
        .map(
            |entry| {
                if entry.is_empty() { PathBuf::from(".") } else { PathBuf::from(OsStr::from_bytes(entry)) }
            },
        )
        .collect()
}

/// The entries of an `LD_PRELOAD`, which colons or spaces separate.
pub(crate) fn split_preload(list: &OsStr) -> Vec<OsString> {
    let entries = list.as_bytes().split(|&byte| byte == b':' || byte == b' ');
    entries.filter(|entry| !entry.is_empty()).map(|entry| OsStr::from_bytes(entry).to_owned()).collect()
}

/// The system's cache of library names, as `ldconfig` prints it. Empty if there is none.
fn system_cache() -> HashMap<OsString, Vec<PathBuf>> {
    let output = ["/sbin/ldconfig", "/usr/sbin/ldconfig", "ldconfig"].iter().find_map(|program| {
        Command::new(program)
            .arg("-p")
            .env_remove("LD_PRELOAD")
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .output()
            .ok()
            .filter(|output| output.status.success())
    });
    output.map(|output| parse_cache(&output.stdout)).unwrap_or_default()
}

/// Parses the output of `ldconfig -p`. Lines have the form `libmpi.so.40 (libc6,x86-64) =>
/// /lib/x86_64-linux-gnu/libmpi.so.40`.
fn parse_cache(listing: &[u8]) -> HashMap<OsString, Vec<PathBuf>> {
    let mut cache: HashMap<OsString, Vec<PathBuf>> = HashMap::new();
    for line in listing.split(|&byte| byte == b'\n') {
        let line = OsStr::from_bytes(line.trim_ascii());
        let Some(arrow) = find(line.as_bytes(), b" => ") else { continue };
        let Some(space) = line.as_bytes().iter().position(|&byte| byte == b' ') else { continue };
        let name = OsStr::from_bytes(&line.as_bytes()[..space]).to_owned();
        let path = PathBuf::from(OsStr::from_bytes(&line.as_bytes()[arrow + b" => ".len()..]));
        cache.entry(name).or_default().push(path);
    }
    cache
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_split_as_the_loader_does() {
        assert_eq!(split_library_path(OsStr::new("")), Vec::<PathBuf>::new());
        assert_eq!(split_library_path(OsStr::new("/a::/b;/c")), ["/a", ".", "/b", "/c"].map(PathBuf::from));
        assert_eq!(
            split_preload(OsStr::new(" /a.so:b.so  /c.so")),
            ["/a.so", "b.so", "/c.so"].map(OsString::from)
        );
    }

    #[test]
    fn cache_is_parsed_without_other_lines() {
        let listing = b"1298 libs found in cache `/etc/ld.so.cache'\n\
            \tlibmpi.so.40 (libc6,x86-64) => /lib/x86_64-linux-gnu/libmpi.so.40\n\
            \tlibc.so.6 (libc6,x86-64, OS ABI: Linux 3.2.0) => /lib/x86_64-linux-gnu/libc.so.6\n\
            Cache generated by: ldconfig (Debian GLIBC) stable release version 2.36\n";
        let cache = parse_cache(listing);
        assert_eq!(cache.len(), 2);
        assert_eq!(cache[OsStr::new("libmpi.so.40")], [PathBuf::from("/lib/x86_64-linux-gnu/libmpi.so.40")]);
        assert_eq!(cache[OsStr::new("libc.so.6")], [PathBuf::from("/lib/x86_64-linux-gnu/libc.so.6")]);
    }

    #[test]
    fn this_test_uses_no_mpi() {
        let path = std::env::current_exe().expect("the path of this test is known");
        assert_eq!(Loader::of_this_process().mpi_libraries(&path), Ok(Vec::new()));
    }

    #[test]
    fn c_library_of_the_system_is_found() {
        let machine = Object::read(&std::env::current_exe().expect("the path of this test is known"))
            .expect("the test is an ELF file")
            .machine;
        assert!(Loader::of_this_process().find_for("libc.so.6", machine).is_some());
        assert!(Loader::of_this_process().find_for("libnothing-of-the-kind.so.1", machine).is_none());
    }
}
