//! Finds the program that `capulet run` is to start, and tells whether it is an ELF file or runs under
//! Python.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use nix::unistd::{AccessFlags, access};

use crate::error::Error;
use crate::python::PythonCommand;

/// The kernel reads only this many bytes of a `#!` line.
const SHEBANG_BYTES_MAX: usize = 256;
/// The kernel follows this many levels of scripts whose interpreters are scripts.
const SHEBANG_DEPTH_MAX: usize = 4;

/// A program that was found.
#[derive(Debug)]
pub(crate) struct Program {
    /// The name as the user wrote it, which becomes the program's own name (`argv[0]`).
    pub(crate) name: OsString,
    /// The file of the program.
    pub(crate) path: PathBuf,
    /// The arguments, without the name.
    pub(crate) arguments: Vec<OsString>,
}

/// What runs in the process.
#[derive(Debug)]
pub(crate) enum Kind {
    /// An ELF file: the program, or the interpreter of a script in another language than Python.
    Elf(PathBuf),
    /// A Python interpreter, with the options that decide where it searches for modules.
    Python(PythonCommand),
}

impl Program {
    /// Finds `command[0]` as a shell does.
    ///
    /// # Errors
    /// [`Error::NotFound`] and [`Error::NotExecutable`], in the same cases as in a shell.
    pub(crate) fn find(command: &[OsString]) -> Result<Self, Error> {
        let (name, arguments) =
            command.split_first().ok_or_else(|| Error::NotFound { program: String::new() })?;
        let path = find_file(name)?;
        Ok(Self { name: name.clone(), path, arguments: arguments.to_vec() })
    }

    /// Reads the head of the file to find its kind.
    ///
    /// # Errors
    /// [`Error::NotExecutable`] if neither the kernel nor this function knows how to run the file,
    /// [`Error::Unreadable`] if it cannot be read, and the errors of finding an interpreter.
    pub(crate) fn kind(&self) -> Result<Kind, Error> {
        let mut path = self.path.clone();
        let mut arguments = self.arguments.clone();
        for _ in 0..SHEBANG_DEPTH_MAX {
            if is_python_name(&path) {
                return Ok(Kind::Python(PythonCommand::new(path, &arguments)));
            }
            let head = read_head(&path)?;
            if head.starts_with(b"\x7fELF") {
                return Ok(Kind::Elf(path));
            }
            let Some(words) = interpreter_words(&head) else {
                let cause = io::Error::from_raw_os_error(libc::ENOEXEC);
                return Err(Error::NotExecutable { program: path.display().to_string(), cause });
            };
            let (interpreter, options) = interpreter_command(&words)?;
            arguments.insert(0, path.into_os_string());
            arguments.splice(0..0, options);
            path = interpreter;
        }
        let cause = io::Error::from_raw_os_error(libc::ELOOP);
        Err(Error::NotExecutable { program: self.path.display().to_string(), cause })
    }
}

/// The file that `name` means: `name` itself if it has a slash, else the first executable one in `PATH`.
fn find_file(name: &OsStr) -> Result<PathBuf, Error> {
    let program = || name.to_string_lossy().into_owned();
    if name.as_bytes().contains(&b'/') {
        let path = PathBuf::from(name);
        return match executable(&path) {
            Ok(()) => Ok(path),
            Err(cause) if matches!(cause.kind(), io::ErrorKind::NotFound) => {
                Err(Error::NotFound { program: program() })
            }
            Err(cause) => Err(Error::NotExecutable { program: program(), cause }),
        };
    }
    let mut refused = None;
    let list = env::var_os("PATH").unwrap_or_else(|| OsString::from("/bin:/usr/bin"));
    // An empty name would match each folder itself.
    for folder in env::split_paths(&list).filter(|_| !name.is_empty()) {
        let path = folder.join(name);
        match executable(&path) {
            // A relative or empty entry of PATH gives a path without a slash, and exec would search PATH
            // for it again.
            Ok(()) if path.as_os_str().as_bytes().contains(&b'/') => return Ok(path),
            Ok(()) => return Ok(Path::new(".").join(path)),
            Err(cause) if cause.kind() == io::ErrorKind::PermissionDenied => refused = Some(cause),
            Err(_) => {}
        }
    }
    Err(match refused {
        Some(cause) => Error::NotExecutable { program: program(), cause },
        None => Error::NotFound { program: program() },
    })
}

fn executable(path: &Path) -> io::Result<()> {
    if fs::metadata(path)?.is_dir() {
        return Err(io::Error::from_raw_os_error(libc::EISDIR));
    }
    access(path, AccessFlags::X_OK).map_err(io::Error::from)
}

fn read_head(path: &Path) -> Result<Vec<u8>, Error> {
    let mut head = Vec::with_capacity(SHEBANG_BYTES_MAX);
    File::open(path)
        .and_then(|file| file.take(SHEBANG_BYTES_MAX as u64).read_to_end(&mut head))
        .map_err(|cause| Error::Unreadable { path: path.to_owned(), cause: cause.to_string() })?;
    Ok(head)
}

/// The words of a `#!` line: the interpreter and at most one argument, as the kernel passes them.
fn interpreter_words(head: &[u8]) -> Option<Vec<OsString>> {
    let line = head.strip_prefix(b"#!")?.split(|&byte| byte == b'\n').next()?.trim_ascii();
    let mut parts = line.splitn(2, |&byte| byte == b' ' || byte == b'\t');
    let interpreter = parts.next().filter(|word| !word.is_empty())?;
    let argument = parts.next().map(<[u8]>::trim_ascii).filter(|word| !word.is_empty());
    Some(
        [Some(interpreter), argument]
            .into_iter()
            .flatten()
            .map(|word| OsStr::from_bytes(word).to_owned())
            .collect(),
    )
}

/// The interpreter's file and its options. If the interpreter is `env`, the program that `env` starts.
fn interpreter_command(words: &[OsString]) -> Result<(PathBuf, Vec<OsString>), Error> {
    let (interpreter, options) =
        words.split_first().ok_or_else(|| Error::NotFound { program: String::new() })?;
    if Path::new(interpreter).file_name() != Some(OsStr::new("env")) {
        return Ok((find_file(interpreter)?, options.to_vec()));
    }
    // `env` gets one argument from the kernel and splits it only after -S. Then the words may also set
    // variables.
    let argument = options.first().map(|option| option.to_string_lossy().into_owned()).unwrap_or_default();
    let command: Vec<&str> = match argument.strip_prefix("-S") {
        Some(rest) => rest.split_whitespace().skip_while(|word| word.contains('=')).collect(),
        None => vec![argument.as_str()],
    };
    let (name, options) =
        command.split_first().ok_or_else(|| Error::NotFound { program: "env".to_owned() })?;
    Ok((find_file(OsStr::new(name))?, options.iter().map(OsString::from).collect()))
}

/// Whether the file name is that of a Python interpreter: `python`, `python3`, `python3.11`,
/// `python3.13t`, `pypy3`.
fn is_python_name(path: &Path) -> bool {
    let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
    let version = name.strip_prefix("python").or_else(|| name.strip_prefix("pypy"));
    version.is_some_and(|version| {
        let version = version.trim_end_matches("-dbg").trim_end_matches(['d', 't']);
        version.chars().all(|character| character.is_ascii_digit() || character == '.')
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn words(head: &[u8]) -> Option<Vec<OsString>> {
        interpreter_words(head)
    }

    #[test]
    fn python_is_recognized_by_name() {
        for name in ["python", "python3", "/usr/bin/python3.11", "python3.13t", "python3-dbg", "pypy3"] {
            assert!(is_python_name(Path::new(name)), "{name}");
        }
        for name in ["pythonic", "python-config", "python3-config", "ipython", "pvpython", "py", ""] {
            assert!(!is_python_name(Path::new(name)), "{name}");
        }
    }

    #[test]
    fn interpreter_line_is_split_as_in_the_kernel() {
        assert_eq!(words(b"#!/bin/sh\necho"), Some(vec!["/bin/sh".into()]));
        assert_eq!(
            words(b"#! /usr/bin/env  python3 \n"),
            Some(vec!["/usr/bin/env".into(), "python3".into()])
        );
        assert_eq!(
            words(b"#!/usr/bin/env -S python3 -u\n"),
            Some(vec!["/usr/bin/env".into(), "-S python3 -u".into()])
        );
        assert_eq!(words(b"#!\n"), None);
        assert_eq!(words(b"echo"), None);
        assert_eq!(words(b""), None);
    }

    #[test]
    fn env_is_resolved_to_its_program() {
        let command = |list: &[&str]| {
            interpreter_command(&list.iter().map(OsString::from).collect::<Vec<_>>())
                .expect("the interpreter is found")
        };
        let (shell, options) = command(&["/usr/bin/env", "sh"]);
        assert_eq!(shell.file_name(), Some(OsStr::new("sh")));
        assert!(options.is_empty());
        let (shell, options) = command(&["/usr/bin/env", "-S LANG=C sh -e -u"]);
        assert_eq!(shell.file_name(), Some(OsStr::new("sh")));
        assert_eq!(options, ["-e", "-u"]);
        assert!(interpreter_command(&["/usr/bin/env".into()]).is_err());
    }

    #[test]
    fn script_that_runs_itself_is_an_error() {
        let folder = tempfile::tempdir().expect("a temporary folder is created");
        let script = folder.path().join("loop");
        fs::write(&script, format!("#!{}\n", script.display())).expect("the file is written");
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("the permissions are set");
        let program = Program::find(&[script.into_os_string()]).expect("the program is found");
        assert!(matches!(program.kind(), Err(Error::NotExecutable { .. })));
    }

    #[test]
    fn missing_and_not_executable_are_different_errors() {
        let folder = tempfile::tempdir().expect("a temporary folder is created");
        let plain = folder.path().join("plain");
        fs::write(&plain, "text").expect("the file is written");
        let find = |path: &Path| Program::find(&[path.as_os_str().to_owned()]);
        assert!(matches!(find(&plain), Err(Error::NotExecutable { .. })));
        assert!(matches!(find(folder.path()), Err(Error::NotExecutable { .. })));
        assert!(matches!(find(&folder.path().join("missing")), Err(Error::NotFound { .. })));
        assert!(matches!(find(Path::new("no-such-command-anywhere")), Err(Error::NotFound { .. })));
        assert!(matches!(find(Path::new("")), Err(Error::NotFound { .. })));
        assert!(matches!(Program::find(&[]), Err(Error::NotFound { .. })));
        fs::set_permissions(&plain, fs::Permissions::from_mode(0o755)).expect("the permissions are set");
        let program = find(&plain).expect("the program is found");
        assert!(
            matches!(program.kind(), Err(Error::NotExecutable { .. })),
            "a text without an interpreter line cannot be executed"
        );
    }
}
