//! The programs of `tests/mpi` between real nodes on one machine: no shared memory between the nodes,
//! messages by TCP. (`CAPULET_NODES` in the other rings simulates nodes that share memory.)

use std::io::Write as _;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use capulet_tests::{Job, Mpi, Nodes, compile};

/// A job takes a few seconds on idle cores.
const LIMIT: Duration = Duration::from_secs(150);

/// A set of nodes that all tests share. The set ends with this process, because statics are not dropped.
type Shared = OnceLock<Result<Arc<Nodes>, String>>;

/// Returns the nodes of `shared`. Reports that a test is skipped if this machine cannot have nodes.
fn nodes(shared: &'static Shared, count: usize, delay_us: u64) -> Option<&'static Arc<Nodes>> {
    let started = shared.get_or_init(|| Nodes::start(count, Duration::from_micros(delay_us)).map(Arc::new));
    let reason = started.as_ref().err();
    if let Some(reason) = reason {
        // Written to the stream directly, because cargo hides the output of a test that passes.
        let test = std::thread::current().name().unwrap_or("a test on nodes").to_owned();
        let line = format!("skipped: {test}: this user or machine has no nodes: {reason}");
        writeln!(std::io::stderr(), "{line}").expect("the stream of errors is there");
    }
    started.as_ref().ok()
}

/// Two nodes.
fn two() -> Option<&'static Arc<Nodes>> {
    static NODES: Shared = OnceLock::new();
    nodes(&NODES, 2, 0)
}

/// Three nodes.
fn three() -> Option<&'static Arc<Nodes>> {
    static NODES: Shared = OnceLock::new();
    nodes(&NODES, 3, 0)
}

/// Two nodes whose frames take 0.2 ms longer.
fn distant() -> Option<&'static Arc<Nodes>> {
    static NODES: Shared = OnceLock::new();
    nodes(&NODES, 2, 200)
}

fn job(name: &str, nodes: &Arc<Nodes>, ranks: &[usize]) -> Job {
    let mpi = Mpi::chosen();
    Job::new(mpi, 1, compile::c(mpi, name)).on_nodes(nodes, ranks).limit(LIMIT)
}

fn check(name: &str, nodes: Option<&Arc<Nodes>>, ranks: &[usize]) {
    let Some(nodes) = nodes else { return };
    job(name, nodes, ranks).run().expect_checks(&format!("{name} on nodes with {ranks:?} ranks"));
}

/// Defines one test for each program on two nodes.
macro_rules! on_two_nodes {
    ($($name:ident)*) => {
        mod on_two_nodes { $(
            #[test]
            #[cfg_attr(native_io, ignore = "is about Capulet alone")]
            fn $name() {
                super::check(stringify!($name), super::two(), &[2, 2]);
            }
        )* }
    };
}

on_two_nodes! { views random_views pointers disjoint overlaps isend errors not_same info sizes }
