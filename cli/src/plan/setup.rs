//! The setup of an access: nodes, and the hints on which plans depend.

use capulet_plan::aggregators::{ConfigList, aggregators_by_node};
use capulet_plan::estimate::Setup;
use capulet_plan::grid::{COLLECTIVE_BUFFER_BYTES, COLLECTIVE_BUFFER_BYTES_MAX, PAGE_BYTES};
use capulet_plan::{CacheState, CollectiveMode, Direction, Holes, PlanHints};

use super::args::PlanArgs;
use super::error::Error;
use crate::hint::Hint;

const KEYS: [&str; 8] = [
    "cb_buffer_size",
    "cb_config_list",
    "cb_nodes",
    "romio_cb_read",
    "romio_cb_write",
    "striping_unit",
    "romio_no_indep_rw",
    "capulet_exclusive",
];

/// Values of the hints on which plans depend, parsed as the library does.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Hints {
    collective_buffer_bytes: u64,
    /// Number of aggregators. 0 makes every rank an aggregator.
    aggregators: u64,
    config_list: ConfigList,
    plan: PlanHints,
    stripe_bytes: u64,
    no_independent: bool,
}

impl Hints {
    fn of(pairs: &[Hint]) -> Result<Self, Error> {
        let mut hints = Self {
            collective_buffer_bytes: COLLECTIVE_BUFFER_BYTES,
            aggregators: 0,
            config_list: ConfigList::default(),
            plan: PlanHints::default(),
            stripe_bytes: 0,
            no_independent: false,
        };
        pairs.iter().try_for_each(|pair| hints.take(pair))?;
        if hints.no_independent {
            hints.plan =
                PlanHints { read: CollectiveMode::Enable, write: CollectiveMode::Enable, ..hints.plan };
        }
        Ok(hints)
    }

    /// Takes over one hint. An unknown hint or value is an error here, while the library ignores it as
    /// MPI requires.
    fn take(&mut self, hint: &Hint) -> Result<(), Error> {
        let (key, value) = (hint.key(), hint.value());
        let no =
            |wanted: &'static str| Error::HintValue { key: key.to_owned(), value: value.to_owned(), wanted };
        let number = || value.parse::<u64>().map_err(|_| no("a whole number"));
        let mode = || match value.to_ascii_lowercase().as_str() {
            "enable" => Ok(CollectiveMode::Enable),
            "disable" => Ok(CollectiveMode::Disable),
            "automatic" => Ok(CollectiveMode::Automatic),
            _ => Err(no("enable, disable or automatic")),
        };
        let flag = || match value.to_ascii_lowercase().as_str() {
            "true" | "enable" => Ok(true),
            "false" | "disable" => Ok(false),
            _ => Err(no("true or false")),
        };
        match key {
            "cb_buffer_size" => {
                let bytes = number()?;
                if bytes == 0 {
                    return Err(no("a number of bytes, 1 or more"));
                }
                self.collective_buffer_bytes =
                    bytes.min(COLLECTIVE_BUFFER_BYTES_MAX).next_multiple_of(PAGE_BYTES);
            }
            "cb_nodes" => self.aggregators = number()?,
            "cb_config_list" => {
                let list: ConfigList = value.parse().map_err(|_| no("a list of host:number"))?;
                if list.names_hosts() {
                    return Err(no("a list for nodes without names, as in *:1"));
                }
                self.config_list = list;
            }
            "romio_cb_read" => self.plan.read = mode()?,
            "romio_cb_write" => self.plan.write = mode()?,
            "striping_unit" => self.stripe_bytes = number()?,
            "romio_no_indep_rw" => self.no_independent = flag()?,
            "capulet_exclusive" => {
                self.plan.holes = if flag()? { Holes::Rewritten } else { Holes::Untouched };
            }
            _ => return Err(Error::HintKey { key: key.to_owned(), known: KEYS.join(", ") }),
        }
        Ok(())
    }
}

/// The setup for `ranks` ranks.
pub(crate) fn setup(args: &PlanArgs, ranks: usize) -> Result<Setup, Error> {
    let nodes = args.nodes as usize;
    if nodes > ranks {
        return Err(Error::wrong(format!("{nodes} nodes are more than {ranks} ranks")));
    }
    let hints = Hints::of(&args.hints)?;
    let node_of: Vec<usize> = (0..ranks).map(|rank| rank * nodes / ranks).collect();
    let mut node_ranks = vec![0; nodes];
    for node in &node_of {
        node_ranks[*node] += 1;
    }
    let aggregators = aggregators_by_node(hints.aggregators, &hints.config_list, &[], &node_ranks);
    Ok(Setup {
        direction: if args.read { Direction::Read } else { Direction::Write },
        is_collective: !args.independent,
        hints: hints.plan,
        in_memory: args.in_memory,
        cache_state: if args.cold { CacheState::Uncached } else { CacheState::Cached },
        aggregators: aggregators.iter().map(|count| *count as usize).collect(),
        node_of,
        collective_buffer_bytes: hints.collective_buffer_bytes,
        allocated_bytes: hints.collective_buffer_bytes,
        stripe_bytes: hints.stripe_bytes,
        may_exchange: true,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hints(pairs: &[&str]) -> Result<Hints, String> {
        let pairs: Vec<Hint> =
            pairs.iter().map(|pair| pair.parse().expect("the hint is well formed")).collect();
        Hints::of(&pairs).map_err(|error| error.to_string())
    }

    #[test]
    fn hints_are_parsed_as_in_the_library() {
        let setup = hints(&["cb_buffer_size=5000", "cb_nodes=3", "striping_unit=65536"])
            .expect("the hints are valid");
        assert_eq!((setup.collective_buffer_bytes, setup.aggregators, setup.stripe_bytes), (8192, 3, 65_536));
        let setup =
            hints(&["romio_cb_write=disable", "romio_no_indep_rw=true"]).expect("the hints are valid");
        let both = CollectiveMode::Enable;
        assert_eq!(setup.plan, PlanHints { read: both, write: both, ..PlanHints::default() });
        assert_eq!(
            hints(&["capulet_exclusive=true"]).expect("the hints are valid").plan.holes,
            Holes::Rewritten
        );
        assert_eq!(
            hints(&["cb_buffer_size=99999999999"]).expect("the hints are valid").collective_buffer_bytes,
            COLLECTIVE_BUFFER_BYTES_MAX
        );
    }

    #[test]
    fn hint_that_the_library_ignores_is_an_error() {
        for (pair, expected) in [
            ("no_such=1", "they depend on cb_buffer_size, cb_config_list, cb_nodes"),
            ("cb_config_list=a:1", "nodes without names"),
            ("cb_config_list=*:x", "list of host:number"),
            ("cb_nodes=many", "hint cb_nodes: many is not a whole number"),
            ("cb_buffer_size=0", "1 or more"),
            ("romio_cb_read=maybe", "enable, disable or automatic"),
            ("romio_no_indep_rw=maybe", "true or false"),
            ("capulet_exclusive=maybe", "true or false"),
        ] {
            let error = hints(&[pair]).expect_err(pair);
            assert!(error.contains(expected), "{pair}: {error}");
        }
    }
}
