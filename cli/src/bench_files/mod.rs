//! `capulet bench collective`, `independent` and `atomic`: launches one program in turn on Capulet and on
//! the MPI's own file layers.

mod against;
mod launch;

use std::collections::BTreeMap;
use std::env;
use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use capulet_bench_report::files::{Contender, Group, Lost, Row, Sample, hopeless, merge, summary, table};
use capulet_drivers::posix::{FilesystemKind, filesystem_kind};
use indicatif::{ProgressBar, ProgressStyle};
use tempfile::TempDir;

use self::launch::{Failure, Launched, launch};
use crate::args::{BAD, BenchArgs, GOOD, HEAD, Storage};
use crate::builds::candidates;
use crate::contender::{self, CAPULET, Mpi, Peer};

const PROGRAM: &str = "capulet-bench-io";
/// Folders in memory and on a disk that every Linux system has. `/var/tmp` outlives a restart, so it is
/// not in memory.
const MEMORY_FOLDER: &str = "/dev/shm";
const DISK_FOLDER: &str = "/var/tmp";
/// Scale of the file sizes with `--quick`, as a part of the full size.
const QUICK_SCALE: &str = "0.02";
const QUICK_RUNS: u16 = 2;

/// Why a group could not be measured.
#[derive(Debug, thiserror::Error)]
enum Trouble {
    #[error("cannot make a folder in {place}: {cause}", place = place.display())]
    Folder { place: PathBuf, cause: io::Error },
    #[error("{layer}: {failure}")]
    Launch { layer: &'static str, failure: Failure },
    #[error("{found} served the files instead of {expected}")]
    Layer { expected: &'static str, found: String },
}

/// Measures and prints. Succeeds if there are rows and Capulet failed in none of them.
pub(crate) fn run(args: &BenchArgs, suite: &str) -> ExitCode {
    let places = places(args);
    let is_cache = |place: &Path| filesystem_kind(place).is_ok_and(|kind| kind == FilesystemKind::Tmpfs);
    if args.cold && places.iter().any(|(_, place)| is_cache(place)) {
        anstream::eprintln!("{BAD}capulet:{BAD:#} --cold needs a disk, because a tmpfs is only cache");
        return ExitCode::FAILURE;
    }
    if let Some(reason) = fault_of_against(args) {
        anstream::eprintln!("{BAD}capulet:{BAD:#} {reason}");
        return ExitCode::FAILURE;
    }
    let executable = env::current_exe().unwrap_or_default();
    let mut rows = Vec::new();
    let mut failed = false;
    for mpi in contender::chosen(&args.mpis) {
        let Some(program) =
            candidates(&executable, mpi.name, PROGRAM).into_iter().find(|path| path.is_file())
        else {
            anstream::eprintln!(
                "{HEAD}{}:{HEAD:#} not measured, because {PROGRAM} is not built for it",
                mpi.name
            );
            continue;
        };
        for ranks in &args.ranks {
            for (storage, place) in &places {
                match measure(mpi, &program, *ranks, (storage, place), suite, args) {
                    Ok(group) => rows.extend(merge(&group)),
                    Err(trouble) => {
                        failed = true;
                        anstream::eprintln!("{BAD}{}, {storage}, {ranks} ranks:{BAD:#} {trouble}", mpi.name);
                    }
                }
            }
        }
    }
    if rows.is_empty() {
        anstream::eprintln!(
            "{BAD}capulet:{BAD:#} nothing was measured; run `make build` if benches are missing, or check \
             --case"
        );
        return ExitCode::FAILURE;
    }
    failed |= rows.iter().any(|row| row.fault.is_some());
    match write(&rows, args) {
        Ok(()) if !failed => ExitCode::SUCCESS,
        Ok(()) => ExitCode::FAILURE,
        Err(error) => {
            anstream::eprintln!("{BAD}capulet:{BAD:#} the rows cannot be written: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Why `--against` cannot be served. `None` without it.
fn fault_of_against(args: &BenchArgs) -> Option<String> {
    let library = args.against.as_ref()?;
    if args.mpis.len() != 1 {
        return Some("--against needs exactly one --mpi, the one that the library was built for".to_owned());
    }
    let name = library.file_name().unwrap_or_default().to_string_lossy();
    // One library serves both versions of Open MPI.
    let served = args.mpis[0].trim_end_matches('5');
    if !library.is_file() {
        return Some(format!("{} is not a file", library.display()));
    }
    (!name.contains(served)).then(|| format!("{} is not a library for {}", library.display(), args.mpis[0]))
}

/// The layers that Capulet is measured against on an MPI.
fn peers_of(mpi: &Mpi, args: &BenchArgs) -> Vec<Peer> {
    match &args.against {
        Some(library) => vec![Peer::Library(fs::canonicalize(library).unwrap_or_else(|_| library.clone()))],
        None => mpi.peers.iter().copied().map(Peer::Own).collect(),
    }
}

/// The storages to measure on, each with a name and a folder.
fn places(args: &BenchArgs) -> Vec<(String, PathBuf)> {
    let named = |name: &str| if args.cold { format!("cold {name}") } else { name.to_owned() };
    if let Some(folder) = &args.dir {
        let name = filesystem_kind(folder).map_or_else(|_| "folder".to_owned(), |kind| kind.to_string());
        return vec![(named(&name), folder.clone())];
    }
    let tmpfs = ("tmpfs".to_owned(), PathBuf::from(MEMORY_FOLDER));
    let disk = (named("disk"), PathBuf::from(DISK_FOLDER));
    match args.storage {
        Storage::Both if args.cold => vec![disk],
        Storage::Tmpfs => vec![tmpfs],
        Storage::Disk => vec![disk],
        Storage::Both => vec![tmpfs, disk],
    }
}

/// Launches that share the program, the ranks and the folder.
struct Series<'a> {
    mpi: &'a Mpi,
    peers: Vec<Peer>,
    program: &'a Path,
    ranks: u32,
    words: Vec<OsString>,
    progress: ProgressBar,
}

fn measure(
    mpi: &Mpi,
    program: &Path,
    ranks: u32,
    (storage, place): (&str, &Path),
    suite: &str,
    args: &BenchArgs,
) -> Result<Group, Trouble> {
    let folder = tempfile::Builder::new().prefix("capulet-bench-").tempdir_in(place);
    let folder = folder.map_err(|cause| Trouble::Folder { place: place.to_owned(), cause })?;
    let progress = ProgressBar::new(0);
    if let Ok(style) = ProgressStyle::with_template("{prefix}: {wide_bar} {pos}/{len}, {eta} left, {msg}") {
        progress.set_style(style);
    }
    progress.set_prefix(format!("{}, {storage}, {ranks} ranks", mpi.name));
    let peers = peers_of(mpi, args);
    let series = Series { mpi, peers, program, ranks, words: words(suite, &folder, args), progress };
    let mut group = Group {
        mpi: mpi.name.to_owned(),
        storage: storage.to_owned(),
        ranks,
        ours: Contender { name: CAPULET.name.to_owned(), ..Contender::default() },
        peers: series
            .peers
            .iter()
            .map(|peer| Contender { name: peer.name().to_owned(), ..Contender::default() })
            .collect(),
        counts: BTreeMap::new(),
    };
    // The counters come from a separate launch, because the library prints them at close and the close is
    // part of some rows.
    let counted = series.once(None, &[], 0, true)?;
    group.counts = counted.counts;
    let runs = if args.quick { args.runs.min(QUICK_RUNS) } else { args.runs };
    if let Some(start) = &counted.start {
        anstream::eprintln!(
            "{GOOD}{}:{GOOD:#} {}, {storage}, {} rows on {ranks} ranks",
            mpi.name,
            start.library,
            start.rows
        );
        series.progress.set_length(start.rows * u64::from(runs) * (1 + series.peers.len() as u64));
    }
    for run in 0..usize::from(runs) {
        series.run(run, &mut group)?;
    }
    series.progress.finish_and_clear();
    Ok(group)
}

fn words(suite: &str, folder: &TempDir, args: &BenchArgs) -> Vec<OsString> {
    let mut words: Vec<OsString> = vec!["--suite".into(), suite.into(), "--dir".into(), folder.path().into()];
    if let Some(case) = &args.case {
        words.extend(["--case".into(), case.into()]);
    }
    if args.quick {
        words.extend(["--scale".into(), QUICK_SCALE.into()]);
    }
    if args.cold {
        words.push("--cold".into());
    }
    words
}

impl Series<'_> {
    /// Launches each contender once. Another contender goes first in each run.
    fn run(&self, run: usize, group: &mut Group) -> Result<(), Trouble> {
        let count = 1 + self.peers.len();
        for turn in 0..count {
            let at = (run + turn) % count;
            let (peer, contender) = match at.checked_sub(1) {
                None => (None, &group.ours),
                Some(peer) => (Some(&self.peers[peer]), &group.peers[peer]),
            };
            let mut skipped: Vec<u32> = contender.lost.iter().map(|lost| lost.head.id).collect();
            if at > 0 {
                // A peer that is far behind another peer cannot become the peer of the row, and may take
                // most of the time.
                skipped.extend(hopeless(contender, &group.peers));
            }
            self.progress.set_message(peer.map_or(CAPULET.name, Peer::name));
            let (samples, lost) = self.whole(peer, skipped)?;
            let contender = if at == 0 { &mut group.ours } else { &mut group.peers[at - 1] };
            contender.runs.push(samples);
            contender.lost.extend(lost);
        }
        Ok(())
    }

    /// Measures all rows except the skipped ones. When a launch fails in a row, another launch continues
    /// with the next row.
    fn whole(&self, peer: Option<&Peer>, mut skipped: Vec<u32>) -> Result<(Vec<Sample>, Vec<Lost>), Trouble> {
        let (mut samples, mut all_lost, mut first) = (Vec::new(), Vec::new(), 0);
        loop {
            let launched = self.once(peer, &skipped, first, false)?;
            samples.extend(launched.samples);
            let Some(lost) = launched.lost else { return Ok((samples, all_lost)) };
            skipped.push(lost.head.id);
            first = lost.head.id + 1;
            all_lost.push(lost);
        }
    }

    /// Launches the program on a peer, or on Capulet.
    fn once(
        &self,
        peer: Option<&Peer>,
        skipped: &[u32],
        first: u32,
        counting: bool,
    ) -> Result<Launched, Trouble> {
        let mut words = self.words.clone();
        words.extend(["--first".into(), first.to_string().into()]);
        if !skipped.is_empty() {
            let list: Vec<String> = skipped.iter().map(u32::to_string).collect();
            words.extend(["--skip".into(), list.join(",").into()]);
        }
        let command = match peer {
            None => self.mpi.command(&CAPULET, self.ranks, self.program, &words, counting),
            Some(peer) => self.mpi.peer_command(peer, self.ranks, self.program, &words),
        };
        let name = peer.map_or(CAPULET.name, Peer::name);
        let expected = peer.map_or(CAPULET.name, Peer::reported_name);
        let launched = launch(command, |_| {
            if !counting {
                self.progress.inc(1);
            }
        })
        .map_err(|failure| Trouble::Launch { layer: name, failure })?;
        match &launched.start {
            Some(start) if start.layer != expected => {
                Err(Trouble::Layer { expected, found: start.layer.clone() })
            }
            _ => Ok(launched),
        }
    }
}

fn write(rows: &[Row], args: &BenchArgs) -> io::Result<()> {
    let json = || serde_json::to_vec_pretty(rows).map_err(io::Error::from);
    if let Some(path) = &args.save {
        fs::write(path, json()?)?;
    }
    let mut output = io::stdout().lock();
    if args.json {
        output.write_all(&json()?)?;
        writeln!(output)
    } else {
        writeln!(output, "{}\n{}", table(rows), summary(rows).trim_end())?;
        if args.against.is_some() { against::write(&mut output, rows) } else { Ok(()) }
    }
}
