//! Finds the MPI that a Python program uses.
//!
//! Only the program's interpreter knows its MPI: the module mpi4py may lie anywhere, and its wheels
//! choose an MPI during their import. So a short process with the same interpreter is asked. The process
//! does not join the job.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use crate::elf::Object;
use crate::error::Error;
use crate::launcher;
use crate::mpi::{self, MpiLibrary};

const PROBE: &str = include_str!("probe.py");
/// Time limit for the probe. An import of mpi4py takes a fraction of a second, but longer on a file
/// system that thousands of ranks use at once.
const PROBE_SECONDS_MAX: u64 = 120;
const LIBRARY_MARK: &[u8] = b"capulet-library:";
const FAILURE_MARK: &[u8] = b"capulet-failure:";

/// The part of a Python command line that decides where modules are searched.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct PythonCommand {
    interpreter: PathBuf,
    /// Options such as `-I` and `-s`.
    options: Vec<OsString>,
    /// The first entry of `sys.path`: the script's folder, or empty for the current folder.
    first_folder: OsString,
}

impl PythonCommand {
    /// Reads the arguments as Python does.
    pub(crate) fn new(interpreter: PathBuf, arguments: &[OsString]) -> Self {
        let mut command = Self { interpreter, options: Vec::new(), first_folder: OsString::new() };
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            let bytes = argument.as_bytes();
            match bytes {
                b"-" => break,
                // This is the only long option whose value is the next word.
                b"--check-hash-based-pycs" => drop(arguments.next()),
                [b'-', b'-', ..] => {}
                [b'-', letters @ ..] => match command.read_letters(letters) {
                    Letters::EndOfOptions => break,
                    Letters::ValueFollows => drop(arguments.next()),
                    Letters::Complete => {}
                },
                _ => {
                    command.first_folder = script_folder(Path::new(argument));
                    break;
                }
            }
        }
        command
    }

    /// Reads a word of one-letter options and keeps those that change the search for modules.
    fn read_letters(&mut self, letters: &[u8]) -> Letters {
        for (position, letter) in letters.iter().enumerate() {
            let is_last = position + 1 == letters.len();
            match letter {
                b'c' | b'm' => return Letters::EndOfOptions,
                b'W' | b'X' if is_last => return Letters::ValueFollows,
                b'W' | b'X' => return Letters::Complete,
                b'E' | b'I' | b's' | b'S' | b'P' => {
                    self.options.push(OsStr::from_bytes(&[b'-', *letter]).to_owned());
                }
                _ => {}
            }
        }
        Letters::Complete
    }

    /// Asks the interpreter for its MPI libraries. Takes as long as an import of mpi4py.
    pub(crate) fn mpi_libraries(&self) -> Result<Vec<MpiLibrary>, Error> {
        let error =
            |cause: String| Error::Probe { interpreter: self.interpreter.display().to_string(), cause };
        let mut command = Command::new(&self.interpreter);
        command.args(&self.options).arg("-c").arg(PROBE).arg(&self.first_folder);
        for name in launcher::variables() {
            command.env_remove(name);
        }
        command
            .env_remove("PYTHONINSPECT")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let child = command.spawn().map_err(|cause| error(cause.to_string()))?;
        let answer = wait_for_answer(child, Duration::from_secs(PROBE_SECONDS_MAX)).map_err(error)?;
        read_answer(&answer).map_err(error)
    }
}

/// How a word of one-letter options ends.
enum Letters {
    /// `-c` or `-m`: the program follows, and the current folder is searched.
    EndOfOptions,
    /// An option whose value is the next word.
    ValueFollows,
    Complete,
}

/// The output of the probe.
struct Answer {
    output: Vec<u8>,
    complaints: Vec<u8>,
    success: bool,
}

/// The folder in which Python searches the modules of a script: the script's own folder, or the script
/// itself if it is a folder or an archive.
fn script_folder(script: &Path) -> OsString {
    let script = fs::canonicalize(script).unwrap_or_else(|_| script.to_owned());
    if script.is_dir() || script.extension().is_some_and(|extension| extension == "zip" || extension == "pyz")
    {
        return script.into_os_string();
    }
    script.parent().map(|folder| folder.as_os_str().to_owned()).unwrap_or_default()
}

/// Collects the output of `child`. Ends `child` if it takes longer than `limit`.
fn wait_for_answer(mut child: Child, limit: Duration) -> Result<Answer, String> {
    let output = collect(child.stdout.take());
    let complaints = collect(child.stderr.take());
    let Ok(output) = output.recv_timeout(limit) else {
        // The child may have ended by itself already, so both results are ignored.
        drop(child.kill());
        drop(child.wait());
        return Err(format!("no answer within {} seconds", limit.as_secs()));
    };
    let status = child.wait().map_err(|cause| cause.to_string())?;
    let complaints = complaints.recv_timeout(limit).unwrap_or_default();
    Ok(Answer { output, complaints, success: status.success() })
}

/// Reads `stream` to its end in a thread of its own, so that the caller can stop waiting.
fn collect(stream: Option<impl Read + Send + 'static>) -> mpsc::Receiver<Vec<u8>> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut stream) = stream {
            // The bytes read before an error are still worth showing.
            drop(stream.read_to_end(&mut bytes));
        }
        drop(sender.send(bytes));
    });
    receiver
}

fn read_answer(answer: &Answer) -> Result<Vec<MpiLibrary>, String> {
    let lines = || answer.output.split(|&byte| byte == b'\n');
    if let Some(failure) = lines().find_map(|line| line.strip_prefix(FAILURE_MARK)) {
        return Err(String::from_utf8_lossy(failure).into_owned());
    }
    if !answer.success {
        let complaints = String::from_utf8_lossy(&answer.complaints);
        let last = complaints.lines().rev().find(|line| !line.trim().is_empty());
        return Err(last.unwrap_or("it failed without a message").to_owned());
    }
    let mut libraries: Vec<MpiLibrary> = Vec::new();
    for path in lines().filter_map(|line| line.strip_prefix(LIBRARY_MARK)) {
        let path = PathBuf::from(OsStr::from_bytes(path));
        let object = Object::read(&path).map_err(|cause| format!("{}: {cause}", path.display()))?;
        let soname = object.soname.unwrap_or_default();
        if mpi::flavor(&soname).is_some() {
            libraries.push(MpiLibrary { soname, path: Some(path) });
        }
    }
    Ok(libraries)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(line: &str) -> PythonCommand {
        let arguments: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        PythonCommand::new(PathBuf::from("python3"), &arguments)
    }

    #[test]
    fn folder_of_the_script_is_searched_first() {
        assert_eq!(command("/nonexistent/dir/program.py -I").first_folder, "/nonexistent/dir");
        assert_eq!(command("/nonexistent/dir/program.py -I").options, [""; 0]);
        assert_eq!(command("-W ignore -X dev /nonexistent/dir/program.py").first_folder, "/nonexistent/dir");
        assert_eq!(command("-Wignore /nonexistent/dir/program.py").first_folder, "/nonexistent/dir");
        assert_eq!(
            command("--check-hash-based-pycs never /nonexistent/dir/p.py").first_folder,
            "/nonexistent/dir"
        );
    }

    #[test]
    fn modules_and_commands_search_the_current_folder() {
        for line in
            ["", "-", "-m mpi4py /a/b.py", "-um mpi4py /a/b.py", "-c pass /a/b.py", "-mmpi4py /a/b.py"]
        {
            assert_eq!(command(line).first_folder, "", "{line}");
        }
    }

    #[test]
    fn options_that_change_the_search_are_kept() {
        assert_eq!(command("-u -sE -B -I script.py -S").options, ["-s", "-E", "-I"]);
        assert_eq!(command("-usm module -I").options, ["-s"]);
    }

    #[test]
    fn archive_and_folder_are_searched_themselves() {
        let folder = tempfile::tempdir().expect("a temporary folder is created");
        let path = fs::canonicalize(folder.path()).expect("the path can be resolved");
        assert_eq!(script_folder(&path), path.as_os_str());
        assert_eq!(script_folder(Path::new("/nonexistent/app.zip")), "/nonexistent/app.zip");
    }

    fn answer(output: &str, complaints: &str, success: bool) -> Result<Vec<MpiLibrary>, String> {
        read_answer(&Answer { output: output.into(), complaints: complaints.into(), success })
    }

    #[test]
    fn answer_is_found_among_other_output() {
        assert_eq!(answer("hello from sitecustomize\n", "", true), Ok(Vec::new()));
        assert_eq!(
            answer("x\ncapulet-failure:mpi4py: no module\n", "", true),
            Err("mpi4py: no module".into())
        );
        assert_eq!(answer("", "Traceback\nSyntaxError: bad\n\n", false), Err("SyntaxError: bad".into()));
        assert_eq!(answer("", "", false), Err("it failed without a message".into()));
        assert!(answer("capulet-library:/nonexistent/libmpi.so.40\n", "", true).is_err());
    }

    #[test]
    fn hanging_interpreter_is_ended() {
        let child = Command::new("sleep")
            .arg("60")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("sleep starts");
        let answer = wait_for_answer(child, Duration::from_millis(50));
        assert_eq!(answer.err(), Some("no answer within 0 seconds".into()));
    }
}
