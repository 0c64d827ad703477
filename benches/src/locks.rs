//! Measures the locks of atomic mode, each by itself.

use std::error::Error;
use std::hint;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use capulet_atomic::{
    FileLock, FileSystemLock, NODE_LOCK_WORDS, NODE_PART_WORDS, NodeLock, NodeQueue, Request, WorldProtocol,
    two_level_lock, world_lock,
};
use capulet_bench_report::LockRow;
use capulet_comm::mpi::traits::AsRaw;
use capulet_comm::{Agree, Channel, Epochs, Group, Mechanism, ReduceOp, WorldWords, mpi, work};
use capulet_drivers::posix::PosixDriver;
use capulet_drivers::{Driver, DriverFile, OpenOptions};
use nix::time::{ClockId, clock_gettime};

use crate::mpi_side::brief;

type Outcome<T> = Result<T, Box<dyn Error>>;

/// The kind of a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Near,
    NearQueue,
    Far(WorldProtocol, Mechanism),
    TwoLevel,
    Storage,
}

const KINDS: [(&str, Kind); 10] = [
    ("range", Kind::Near),
    ("shared", Kind::NearQueue),
    ("range-far", Kind::Far(WorldProtocol::Ranges, Mechanism::Auto)),
    ("range-server", Kind::Far(WorldProtocol::Ranges, Mechanism::Server)),
    ("mcs", Kind::Far(WorldProtocol::Queue, Mechanism::Auto)),
    ("hybrid", Kind::Far(WorldProtocol::Hybrid, Mechanism::Auto)),
    ("onesided", Kind::Far(WorldProtocol::OneSided, Mechanism::Auto)),
    ("twolevel", Kind::TwoLevel),
    ("fcntl", Kind::Storage),
    // Last, because the ranks answer for these words until `MPI_Finalize`, which slows the waits of MPI.
    ("range-messages", Kind::Far(WorldProtocol::Ranges, Mechanism::Messages)),
];

/// The experiments `turns`: milliseconds of work inside the lock, and acquisitions of each rank.
const TURNS: [(u32, u32); 4] = [(0, 400), (1, 100), (10, 20), (100, 4)];

/// All ranks of a job. Each rank is a process.
struct Team {
    group: Arc<Group>,
    library: String,
    file: Arc<dyn DriverFile>,
    is_quick: bool,
}

/// A lock that is measured, and the channel on which its ranks agree.
struct Measured<'a> {
    team: &'a Team,
    name: &'static str,
    channel: Channel,
    lock: Arc<dyn FileLock>,
    /// The words of the lock. `None` if these are words of a node, or if the lock has none.
    words: Option<WorldWords>,
}

/// Runs all experiments with the locks named in `names`, or with all locks if `names` is empty. Rank 0
/// prints the rows as lines of JSON. The lock `fcntl` locks a file in `folder`, which is removed at the
/// end. `is_quick` reduces the number of acquisitions. Collective over the job; blocks until the
/// experiments end.
///
/// # Errors
/// If MPI or the storage fails.
pub fn run(folder: &Path, names: &[String], is_quick: bool) -> Outcome<()> {
    let universe = mpi::initialize().ok_or("MPI is initialized already")?;
    // SAFETY: `# Safety` of `Group::of`: the world communicator is valid during the call, because
    // `universe` keeps MPI initialized.
    let group = unsafe { Group::of(universe.world().as_raw()) }?;
    let path = folder.join(format!("capulet-bench-locks-{}", group.size()));
    let file = PosixDriver::new().open(&path, &OpenOptions::read_write().create(true))?;
    let library = brief(&mpi::environment::library_version()?);
    let team = Team { group, library, file, is_quick };
    for (name, kind) in KINDS {
        let is_chosen = names.is_empty() || names.iter().any(|chosen| chosen == name);
        if is_chosen && let Some(measured) = team.measured(name, kind)? {
            measured.all()?;
        }
    }
    if team.group.rank().0 == 0 {
        std::fs::remove_file(path)?;
    }
    Ok(())
}

fn progress() {
    capulet_comm::progress();
    work::advance();
}

/// Nanoseconds on a clock that all processes of a machine share.
fn now_ns() -> u64 {
    let time = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("Linux has this clock");
    time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64
}

impl Team {
    /// Makes the lock. `None` if these ranks cannot have it.
    fn measured(&self, name: &'static str, kind: Kind) -> Outcome<Option<Measured<'_>>> {
        let channel = self.group.channel()?;
        let ranks = self.group.node().ranks.clone();
        let mut far = None;
        let lock: Arc<dyn FileLock> = match kind {
            Kind::Storage => FileSystemLock::new(Arc::clone(&self.file), None, progress),
            Kind::Near | Kind::NearQueue => {
                let words = if self.group.node().node_count() == 1 {
                    channel.node_words(0, NODE_LOCK_WORDS)
                } else {
                    None
                };
                let Some(words) = words else { return Ok(None) };
                if kind == Kind::Near {
                    NodeLock::new(words, ranks, None, progress)
                } else {
                    NodeQueue::new(words, ranks, None, progress)
                }
            }
            Kind::TwoLevel => {
                let words = channel.world_words(Epochs::Standing, Mechanism::Auto)?;
                let node = channel.node_words(0, NODE_PART_WORDS);
                let both = words.zip(node);
                // One node may have no words while other nodes have them.
                let mut lanes = [both.is_some().into()];
                channel.allreduce(&mut lanes, &[ReduceOp::Min])?;
                let Some((words, node)) = both.filter(|_| lanes[0] == 1) else { return Ok(None) };
                far = Some(words.clone());
                two_level_lock(words, channel.notifier(), node, ranks, None, progress)
            }
            Kind::Far(protocol, mechanism) => {
                let Some(words) = channel.world_words(Epochs::Standing, mechanism)? else {
                    return Ok(None);
                };
                let table = if protocol.uses_table() && !words.is_exclusive() {
                    let Some(table) = channel.world_words(Epochs::Exclusive, mechanism)? else {
                        return Ok(None);
                    };
                    Some(table)
                } else {
                    None
                };
                far = Some(table.as_ref().unwrap_or(&words).clone());
                world_lock(protocol, words, table, channel.notifier(), None, progress)
            }
        };
        Ok(Some(Measured { team: self, name, channel, lock, words: far }))
    }
}

impl Measured<'_> {
    fn all(&self) -> Outcome<()> {
        self.alone("alone", || Ok(self.lock.enter(&Request::whole())?))?;
        if let Some(words) = &self.words {
            self.alone("fetch", || Ok(words.load::<u32>(words.home(), 0)?))?;
        }
        for (work_ms, sections) in TURNS {
            let sections = if self.team.is_quick { sections.div_ceil(10) } else { sections };
            self.turns(work_ms, sections)?;
        }
        self.apart()?;
        self.busy()?;
        self.channel.barrier()?;
        self.lock.finish()?;
        self.channel.barrier()?;
        Ok(())
    }

    fn me(&self) -> u32 {
        self.team.group.rank().0
    }

    /// The rank whose memory holds the words of the lock.
    fn home(&self) -> u32 {
        self.words.as_ref().map_or(0, WorldWords::home)
    }

    fn print(
        &self,
        experiment: &str,
        work_ms: u32,
        acquisitions: u64,
        value: f64,
        longest_ns: u64,
    ) -> Outcome<()> {
        if self.me() == 0 {
            let row = LockRow {
                mpi: self.team.library.clone(),
                lock: self.name.to_owned(),
                ranks: self.team.group.size(),
                experiment: experiment.to_owned(),
                work_ms,
                acquisitions,
                value,
                longest_wait_ms: longest_ns as f64 * 1e-6,
            };
            let mut output = std::io::stdout().lock();
            writeln!(output, "{}", serde_json::to_string(&row)?)?;
        }
        Ok(())
    }

    /// Experiment `alone`: one rank acquires and releases the lock without contention. Experiment `fetch`: it
    /// fetches one word of the home rank, which is one round trip. The rank is not the home of the lock's
    /// words if there is another rank.
    fn alone<R>(&self, experiment: &str, operate: impl Fn() -> Outcome<R>) -> Outcome<()> {
        const SAMPLES: usize = 15;
        let (asks, pairs) =
            ((self.home() + 1) % self.team.group.size(), if self.team.is_quick { 20 } else { 400 });
        self.channel.barrier()?;
        let mut samples = Vec::new();
        if self.me() == asks {
            for _ in 0..SAMPLES {
                let start = Instant::now();
                for _ in 0..pairs {
                    drop(operate()?);
                }
                samples.push(start.elapsed().as_nanos() as u64 / pairs);
            }
            samples.sort_unstable();
        }
        let mut lanes = [samples.get(SAMPLES / 2).copied().unwrap_or(0)];
        self.channel.allreduce(&mut lanes, &[ReduceOp::Max])?;
        self.print(experiment, 0, pairs * SAMPLES as u64, lanes[0] as f64 * 1e-3, 0)
    }

    /// Experiment `turns`: every rank repeats acquire, work and release. The time that is not work is the
    /// cost of the lock.
    fn turns(&self, work_ms: u32, sections: u32) -> Outcome<()> {
        let (mut worked_ns, mut longest_ns) = (0, 0);
        self.channel.barrier()?;
        let start = now_ns();
        for _ in 0..sections {
            let asked = now_ns();
            let guard = self.lock.enter(&Request::whole())?;
            let inside = now_ns();
            longest_ns = longest_ns.max(inside - asked);
            if work_ms > 0 {
                thread::sleep(Duration::from_millis(work_ms.into()));
                worked_ns += now_ns() - inside;
            }
            drop(guard);
        }
        let mut lanes = [start, now_ns(), worked_ns, longest_ns];
        self.channel.allreduce(&mut lanes, &[ReduceOp::Min, ReduceOp::Max, ReduceOp::Sum, ReduceOp::Max])?;
        let [start, end, worked_ns, longest_ns] = lanes;
        let (elapsed_ns, all) =
            ((end - start) as f64, u64::from(sections) * u64::from(self.team.group.size()));
        let value = if work_ms == 0 {
            elapsed_ns * 1e-3 / all as f64
        } else {
            100.0 * (elapsed_ns - worked_ns as f64) / elapsed_ns
        };
        self.print("turns", work_ms, all, value, longest_ns)
    }

    /// Experiment `apart`: the time of two ranks that hold locks on different bytes at the same time,
    /// relative to the time of one rank alone.
    fn apart(&self) -> Outcome<()> {
        const WORK_MS: u32 = 10;
        if self.team.group.size() < 2 {
            return Ok(());
        }
        let sections = if self.team.is_quick { 3 } else { 20 };
        let mut elapsed = [0.0; 2];
        let mut longest_ns = 0;
        for (elapsed, ranks) in elapsed.iter_mut().zip([1, 2]) {
            self.channel.barrier()?;
            let (start, mut longest) = (now_ns(), 0);
            if self.me() < ranks {
                let first = u64::from(self.me()) * 1000;
                let request = Request::contiguous(first..first + 1000, false);
                for _ in 0..sections {
                    let asked = now_ns();
                    let _guard = self.lock.enter(&request)?;
                    longest = longest.max(now_ns() - asked);
                    thread::sleep(Duration::from_millis(WORK_MS.into()));
                }
            }
            let mut lanes = [start, now_ns(), longest];
            self.channel.allreduce(&mut lanes, &[ReduceOp::Min, ReduceOp::Max, ReduceOp::Max])?;
            *elapsed = (lanes[1] - lanes[0]) as f64;
            longest_ns = lanes[2];
        }
        self.print("apart", WORK_MS, 2 * sections, elapsed[1] / elapsed[0], longest_ns)
    }

    /// Experiment `busy`: the home rank computes for a second and makes no call. Another rank asks for
    /// the lock after a tenth of this time.
    fn busy(&self) -> Outcome<()> {
        if self.team.group.size() < 2 {
            return Ok(());
        }
        let busy = Duration::from_millis(if self.team.is_quick { 200 } else { 1000 });
        self.channel.barrier()?;
        let start = Instant::now();
        let mut waited_ns = 0;
        if self.me() == self.home() {
            while start.elapsed() < busy {
                hint::spin_loop();
            }
        } else if self.me() == (self.home() + 1) % self.team.group.size() {
            thread::sleep(busy / 10);
            let asked = now_ns();
            drop(self.lock.enter(&Request::whole())?);
            waited_ns = now_ns() - asked;
        }
        let mut lanes = [waited_ns];
        self.channel.allreduce(&mut lanes, &[ReduceOp::Max])?;
        self.print("busy", 0, 1, lanes[0] as f64 * 1e-6, lanes[0])
    }
}
