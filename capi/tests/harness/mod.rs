//! Compiles a program of `tests/c` or `tests/fortran`, and runs it under `mpiexec` with the library that
//! cargo has just built.
#![allow(dead_code, reason = "each test program uses its part")]

use std::env;
use std::ffi::OsString;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Mutex, PoisonError};

use tempfile::TempDir;

/// The time limit of a run in seconds. Only a run that hangs takes longer.
const LIMIT: &str = "480";

/// Held during a run on MPICH: its ranks spin, so several runs would compete for the cores.
static ALONE: Mutex<()> = Mutex::new(());

/// The C compiler wrapper of the MPI that the library is built for.
pub(crate) fn mpicc() -> &'static str {
    env!("CAPULET_MPICC")
}

/// An absolute path of a path in this crate.
pub(crate) fn in_crate(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// A program in the folder of `mpicc`, with the same suffix: `mpiexec.openmpi` for `mpicc.openmpi`.
pub(crate) fn beside_mpicc(name: &str) -> PathBuf {
    let mpicc = Path::new(mpicc());
    let file = mpicc.file_name().and_then(|file| file.to_str()).expect("MPICC is the path of a file");
    mpicc.with_file_name(file.replacen("mpicc", name, 1))
}

/// The library under test: `$CAPULET_LIBRARY`, or the library that cargo built together with this test.
pub(crate) fn library() -> PathBuf {
    let built = || {
        let test = env::current_exe().expect("the test program has a path");
        test.parent().expect("the path has a parent").join("libcapulet.so")
    };
    let library = env::var_os("CAPULET_LIBRARY").map_or_else(built, PathBuf::from);
    assert!(library.is_file(), "no library at {}", library.display());
    library
}

/// How the library is loaded before the MPI library.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Load {
    /// By `LD_PRELOAD`, into a program that is linked without it.
    Preload,
    /// Linked before the MPI library.
    Link,
}

/// A compiled test program, with a folder for its files.
pub(crate) struct Program {
    folder: TempDir,
    path: PathBuf,
    load: Load,
}

impl Program {
    /// Compiles `tests/c/<name>.c`.
    pub(crate) fn c(name: &str, load: Load) -> Self {
        let source = in_crate("tests/c").join(name).with_extension("c");
        Self::compile(Command::new(mpicc()), &source, load)
    }

    /// Compiles a C program that uses the toolkit, from any folder.
    pub(crate) fn toolkit(source: &Path) -> Self {
        let mut compiler = Command::new(mpicc());
        compiler.args(["-pthread", "-Wall", "-Wextra", "-I"]).arg(in_crate("include"));
        Self::compile(compiler, source, Load::Link)
    }

    /// Compiles `tests/fortran/<name>.f90`.
    pub(crate) fn fortran(name: &str) -> Self {
        let source = in_crate("tests/fortran").join(name).with_extension("f90");
        Self::compile(Command::new(beside_mpicc("mpif90")), &source, Load::Preload)
    }

    fn compile(mut compiler: Command, source: &Path, load: Load) -> Self {
        let folder = TempDir::new().expect("a folder can be created");
        let path = folder.path().join(source.file_stem().expect("the path of a source has a file name"));
        compiler.current_dir(folder.path()).arg("-g").arg("-o").arg(&path).arg(source);
        if let Load::Link = load {
            // The loader looks for the SONAME of the library, which may differ from its file name.
            let named = folder.path().join(env!("CAPULET_SONAME_BUILT"));
            symlink(library(), &named).expect("a link can be created");
            compiler.arg(named);
        }
        let output = compiler.output().unwrap_or_else(|error| panic!("cannot run {compiler:?}: {error}"));
        assert!(output.status.success(), "{compiler:?}:\n{}", text(&output));
        Program { folder, path, load }
    }

    /// Runs the program on `ranks` ranks. The argument is the name of a data file.
    pub(crate) fn run(&self, ranks: u32, variables: &[(&str, &str)]) -> Output {
        let data = self.folder.path().join(format!("data.{ranks}"));
        let mut command = Command::new("timeout");
        command.args(["--kill-after=5", LIMIT]).arg(beside_mpicc("mpiexec")).args(["-n", &ranks.to_string()]);
        for variable in [
            "OMPI_ALLOW_RUN_AS_ROOT",
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM",
            "OMPI_MCA_rmaps_base_oversubscribe",
            "OMPI_MCA_mpi_yield_when_idle",
        ] {
            command.env(variable, "1");
        }
        command.env("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe");
        // Only the program gets these variables: `mpiexec` itself must not load the library.
        command.arg("env").arg(self.loading());
        command.args(variables.iter().map(|(key, value)| format!("{key}={value}")));
        command.arg(&self.path).arg(data);
        let spins = mpicc().contains("mpich");
        let _alone = spins.then(|| ALONE.lock().unwrap_or_else(PoisonError::into_inner));
        command.output().expect("timeout can be run")
    }

    /// The environment variable that makes the program load the library, as `NAME=value`.
    fn loading(&self) -> OsString {
        let mut setting = OsString::new();
        match self.load {
            Load::Preload => {
                setting.push("LD_PRELOAD=");
                setting.push(library());
            }
            Load::Link => {
                setting.push("LD_LIBRARY_PATH=");
                setting.push(self.folder.path());
                if let Some(path) = env::var_os("LD_LIBRARY_PATH") {
                    setting.push(":");
                    setting.push(path);
                }
            }
        }
        setting
    }

    /// Runs the program, and fails if a check of the program fails.
    pub(crate) fn passes(&self, ranks: u32) {
        let output = self.run(ranks, &[]);
        let printed = text(&output);
        let passed = output.status.success() && printed.contains("all checks passed");
        assert!(
            passed,
            "{} on {ranks} ranks, {:?}: {}\n{printed}",
            self.path.display(),
            self.load,
            output.status
        );
    }
}

/// The output of a program: standard output, then standard error.
pub(crate) fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}
