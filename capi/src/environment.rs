//! The environment variables that this library reads. It is also the composition root: it takes the
//! registry of all drivers (`drivers/src/registry.rs`, `standard`) and chooses the default driver.
//!
//! | variable | meaning |
//! |---|---|
//! | `CAPULET_DRIVER` | the driver for file names without a prefix |
//! | `CAPULET_HINTS` | `key=value;key=value`: hints that override the hints of the program |
//! | `CAPULET_STATS` | `1`: print a table of counters for each file when it is closed |
//! | `CAPULET_LOG` | log on standard error: `off`, `info`, `debug` or a `tracing` filter; default: warnings |
//! | `CAPULET_FAULTS` | for tests: `rank=R;PLAN` makes the storage of rank R of `MPI_COMM_WORLD` fail |
//! | `ROMIO_HINTS` | a file of hints, one key and value per line; the hints of the program override it |
//!
//! The library reads each variable once, at the first call that reaches it. An invalid value is reported
//! on standard error, and every open fails then: a run with other settings than the user intended must
//! not continue. An invalid `CAPULET_LOG` is reported and ignored. [`FaultPlan::parse`] describes the
//! language of PLAN. R may be `*` for all ranks.

use std::env;
use std::fmt;
use std::io::IsTerminal;
use std::sync::{Arc, Once, OnceLock};
use std::time::Instant;

use capulet_adio::Context;
use capulet_comm::ErrorClass;
use capulet_drivers::Registry;
use capulet_drivers::wrappers::{FaultPlan, Faulty, Traced};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::SubscriberBuilder;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::format::{DefaultFields, Format, Full};
use tracing_subscriber::fmt::time::FormatTime;

use crate::failure::{Failure, failure};
use crate::report;

/// Starts the log and installs a panic hook, once. Later calls cost one atomic load.
pub(crate) fn start() {
    static START: Once = Once::new();
    START.call_once(|| {
        std::panic::set_hook(Box::new(|panic| report::print(format_args!("internal error: {panic}"))));
        match variable("CAPULET_LOG") {
            Some(filter) => start_logging(&filter),
            // Warnings report lost speed, or failures that no return code can report.
            None => set_subscriber(log_format().with_max_level(tracing::Level::WARN).finish()),
        }
    });
}

fn start_logging(filter: &str) {
    match EnvFilter::try_new(filter) {
        Ok(filter) => set_subscriber(log_format().with_env_filter(filter).finish()),
        Err(error) => report::print(format_args!("CAPULET_LOG={filter:?} is ignored: {error}")),
    }
}

type LogFormat =
    SubscriberBuilder<DefaultFields, Format<Full, RankAndTime>, LevelFilter, fn() -> std::io::Stderr>;

/// The log format: lines on standard error with the rank and the time.
fn log_format() -> LogFormat {
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr as fn() -> std::io::Stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_timer(RankAndTime { start: Instant::now() })
}

fn set_subscriber(subscriber: impl tracing::Subscriber + Send + Sync) {
    // This fails only if a subscriber is already set. No other code sets one in this library's copy of
    // `tracing`.
    let _ = tracing::subscriber::set_global_default(subscriber);
}

/// Begins each line of the log with the rank and the seconds since the first call.
struct RankAndTime {
    start: Instant,
}

impl FormatTime for RankAndTime {
    fn format_time(&self, writer: &mut Writer<'_>) -> fmt::Result {
        write!(writer, "capulet rank {} {:.6} s", report::rank(), self.start.elapsed().as_secs_f64())
    }
}

/// The value of a variable. `None` if it is unset, empty or not Unicode.
fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

/// Reads `key=value;key=value`. Spaces around keys and values are removed.
///
/// # Errors
/// The first part that does not have this form.
fn parse_pairs(text: &str) -> Result<Vec<(String, String)>, String> {
    let parts = text.split(';').map(str::trim).filter(|part| !part.is_empty());
    parts
        .map(|part| match part.split_once('=') {
            Some((key, value)) if !key.trim().is_empty() => {
                Ok((key.trim().to_owned(), value.trim().to_owned()))
            }
            _ => Err(part.to_owned()),
        })
        .collect()
}

/// What the environment determines for this process: the context of its files, and the error in the
/// environment.
pub(crate) struct Composition {
    /// Drivers, hints and statistics.
    pub(crate) context: Context,
    error: Option<String>,
}

impl Composition {
    /// Fails if a variable has an invalid value.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        match &self.error {
            None => Ok(()),
            Some(error) => Err(failure(ErrorClass::Arg, error)),
        }
    }
}

/// The composition of this process, made at the first call. MPI must be initialized.
pub(crate) fn composition() -> &'static Composition {
    static COMPOSITION: OnceLock<Composition> = OnceLock::new();
    COMPOSITION.get_or_init(|| {
        let (context, error) = match compose() {
            Ok(context) => (context, None),
            Err(error) => {
                report::print(format_args!("rank {}: no file can be opened: {error}", report::rank()));
                (Context::new(Registry::standard()), Some(error))
            }
        };
        Composition { context, error }
    })
}

fn compose() -> Result<Context, String> {
    let mut registry = Registry::standard();
    if let Some(name) = variable("CAPULET_DRIVER") {
        registry = registry
            .with_default(name.trim_end_matches(':'))
            .map_err(|error| format!("CAPULET_DRIVER: {error}"))?;
    }
    if let Some(text) = variable("CAPULET_FAULTS") {
        let plan = parse_faults(&text, report::rank()).map_err(|error| format!("CAPULET_FAULTS: {error}"))?;
        if !plan.is_empty() {
            registry = registry.wrapped(|driver| Arc::new(Faulty::new(driver, plan.clone())));
        }
    }
    if variable("CAPULET_LOG").is_some() {
        registry = registry.wrapped(|driver| Arc::new(Traced::new(driver)));
    }
    let hints = variable("CAPULET_HINTS").map_or(Ok(Vec::new()), |text| parse_pairs(&text));
    let mut context = Context::new(registry);
    context.hints = hints.map_err(|part| format!("CAPULET_HINTS: {part:?} is not of the form key=value"))?;
    context.hint_file = variable("ROMIO_HINTS").map(Into::into);
    context.stats = variable("CAPULET_STATS").is_some_and(|value| value != "0");
    Ok(context)
}

/// The faults for rank `rank` from `rank=R;PLAN`. Empty if R is another rank.
fn parse_faults(text: &str, rank: i32) -> Result<FaultPlan, String> {
    let (target, plan) = text
        .split_once(';')
        .and_then(|(target, plan)| Some((target.trim().strip_prefix("rank=")?, plan)))
        .ok_or_else(|| format!("{text:?} is not of the form rank=R;PLAN"))?;
    let plan = FaultPlan::parse(plan).map_err(|error| error.to_string())?;
    if target == "*" {
        return Ok(plan);
    }
    let target: i32 = target.parse().map_err(|_| format!("{target:?} is not a rank"))?;
    Ok(if target == rank { plan } else { FaultPlan::none() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_read() {
        let pairs = parse_pairs(" cb_nodes=2; romio_cb_write = enable ;;").expect("the pairs are valid");
        let expected = [("cb_nodes", "2"), ("romio_cb_write", "enable")];
        assert_eq!(pairs, expected.map(|(key, value)| (key.to_owned(), value.to_owned())));
        assert_eq!(parse_pairs(""), Ok(Vec::new()));
        assert_eq!(parse_pairs("key=a=b"), Ok(vec![("key".to_owned(), "a=b".to_owned())]));
    }

    #[test]
    fn error_names_the_part_that_is_not_a_pair() {
        assert_eq!(parse_pairs("cb_nodes=2;lonely"), Err("lonely".to_owned()));
        assert_eq!(parse_pairs("=2"), Err("=2".to_owned()));
    }

    #[test]
    fn faults_apply_to_one_rank_or_to_all_ranks() {
        let empty = |text, rank| parse_faults(text, rank).map(|plan| plan.is_empty());
        assert_eq!(empty("rank=2;write@0:io", 2), Ok(false));
        assert_eq!(empty("rank=2;write@0:io", 1), Ok(true));
        assert_eq!(empty("rank=*;write@0:io", 1), Ok(false));
        for wrong in ["write@0:io", "rank=two;write@0:io", "rank=0;nonsense", "2;write@0:io"] {
            assert!(empty(wrong, 0).is_err(), "{wrong}");
        }
    }
}
