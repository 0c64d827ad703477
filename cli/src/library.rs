//! Finds the Capulet library for an MPI, and checks that the file is what its name says.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::elf::Object;
use crate::error::Error;
use crate::mpi::Mpi;

/// The environment variable that names the only folder to search for the libraries.
pub(crate) const FOLDER_VARIABLE: &str = "CAPULET_LIBDIR";

/// A Capulet library that fits its MPI.
#[derive(Debug)]
pub(crate) struct CapuletLibrary {
    pub(crate) path: PathBuf,
    pub(crate) object: Object,
}

/// Finds the library for `mpi` and reads it.
///
/// # Errors
/// [`Error::NoLibrary`] if there is none, [`Error::UnfitLibrary`] if the first one found is for something
/// else.
pub(crate) fn find(mpi: Mpi) -> Result<CapuletLibrary, Error> {
    let folders = match env::var_os(FOLDER_VARIABLE).filter(|folder| !folder.is_empty()) {
        // A user who names a folder wants no other folder.
        Some(folder) => vec![PathBuf::from(folder)],
        None => env::current_exe().map(|path| folders_beside(&path, mpi)).unwrap_or_default(),
    };
    find_in(&folders, mpi)
}

fn find_in(folders: &[PathBuf], mpi: Mpi) -> Result<CapuletLibrary, Error> {
    let name = mpi.capulet_library();
    let Some(path) = folders.iter().map(|folder| folder.join(&name)).find(|path| path.is_file()) else {
        let searched =
            folders.iter().map(|folder| folder.display().to_string()).collect::<Vec<_>>().join(", ");
        return Err(Error::NoLibrary { name, mpi, searched });
    };
    // The loader may use the path in another current folder.
    let path = std::path::absolute(&path).unwrap_or(path);
    let unfit = |cause: String| Error::UnfitLibrary { path: path.clone(), mpi, cause };
    let object = Object::read(&path).map_err(unfit)?;
    check(&object, mpi).map_err(unfit)?;
    Ok(CapuletLibrary { path, object })
}

/// The folders to search for a command at `executable`: its own, the library folder of an installation,
/// and the build folders of `mpi`.
fn folders_beside(executable: &Path, mpi: Mpi) -> Vec<PathBuf> {
    let Some(folder) = executable.parent() else { return Vec::new() };
    let mut folders = vec![folder.to_owned()];
    let above = folder.parent();
    folders.extend(above.map(|above| above.join("lib")));
    // Builds lie in target/MPI/PROFILE. This command may be built for another MPI than the program's.
    if let (Some(profile), Some(builds)) = (folder.file_name(), above.and_then(Path::parent)) {
        let build = builds.join(mpi.name());
        for folder in [build.join(profile), build.join("release")] {
            if !folders.contains(&folder) {
                folders.push(folder);
            }
        }
    }
    folders
}

/// Checks two names. The SONAME shows that the file is the right library. The name of the MPI library
/// that it needs must be right too, or the loader would load a second MPI.
fn check(object: &Object, mpi: Mpi) -> Result<(), String> {
    let expected = mpi.capulet_library();
    match &object.soname {
        Some(soname) if *soname == expected => {}
        Some(soname) => return Err(format!("its SONAME is {soname}")),
        None => return Err("it has no SONAME".to_owned()),
    }
    let mpis: Vec<&OsString> = object
        .needed
        .iter()
        .filter(|name| name.to_str().is_some_and(|name| crate::mpi::flavor(name).is_some()))
        .collect();
    match mpis[..] {
        [name] if name == mpi.soname() => Ok(()),
        [] => Err("it is not linked to an MPI library".to_owned()),
        _ => Err(format!(
            "it is linked to {}",
            mpis.iter().map(|name| name.display().to_string()).collect::<Vec<_>>().join(", ")
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn installed_and_built_layouts_are_searched() {
        let folders = folders_beside(Path::new("/opt/capulet/bin/capulet"), Mpi::Mpich);
        assert_eq!(folders[..2], ["/opt/capulet/bin", "/opt/capulet/lib"].map(PathBuf::from));
        let folders = folders_beside(Path::new("/src/target/openmpi/release/capulet"), Mpi::Mpich5);
        assert!(folders.contains(&PathBuf::from("/src/target/mpich5/release")), "{folders:?}");
        let folders = folders_beside(Path::new("/src/target/openmpi/debug/capulet"), Mpi::Mpich);
        assert!(folders.contains(&PathBuf::from("/src/target/mpich/release")), "{folders:?}");
        let folders = folders_beside(Path::new("/src/target/mpich/release/capulet"), Mpi::Mpich);
        assert_eq!(
            folders,
            ["/src/target/mpich/release", "/src/target/mpich/lib"].map(PathBuf::from),
            "no folder appears twice"
        );
        assert!(folders_beside(Path::new("/"), Mpi::Mpich).is_empty());
    }

    #[test]
    fn error_of_a_missing_library_names_the_folders() {
        let error = find_in(&["/nonexistent/a".into(), "/nonexistent/b".into()], Mpi::OpenMpi)
            .expect_err("the library is missing");
        assert!(error.to_string().contains("/nonexistent/a, /nonexistent/b"), "{error}");
    }

    #[test]
    fn unfit_library_is_refused() {
        let folder = tempfile::tempdir().expect("a temporary folder is created");
        let path = folder.path().join("libcapulet_openmpi.so");
        fs::write(&path, "no library").expect("the file is written");
        let error =
            find_in(&[folder.path().to_owned()], Mpi::OpenMpi).expect_err("the file is not a library");
        assert!(matches!(error, Error::UnfitLibrary { .. }), "{error}");
        fs::copy(env::current_exe().expect("the path of this test is known"), &path)
            .expect("the file is copied");
        let error = find_in(&[folder.path().to_owned()], Mpi::OpenMpi).expect_err("the file has no SONAME");
        assert!(error.to_string().contains("no SONAME"), "{error}");
    }
}
