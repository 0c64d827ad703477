//! Which nodes have collective buffers, and how many: the hints `cb_nodes` and `cb_config_list`, with the
//! spelling and the meaning that they have in ROMIO.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// The value of `cb_config_list`, a list of entries. `host:n` allows at most `n` aggregators on a host.
/// `*:n` applies to each host that no earlier entry names. `*` in place of `n` allows all ranks of the
/// host, and a missing number means 1. Of several entries for one host the first one applies. A host that
/// is not in the list has no aggregator. Aggregators are assigned in the order of the list.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ConfigList(Arc<[Entry]>);

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Entry {
    /// `None` stands for every host that no earlier entry names.
    host: Option<String>,
    /// The greatest number of aggregators on each host; `None` for as many as there are ranks.
    most: Option<u32>,
}

/// The text is not a `cb_config_list`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a list of `host:number`")]
pub struct NoConfigList;

impl Default for ConfigList {
    /// `*:*`: every rank.
    fn default() -> Self {
        Self(Arc::new([Entry { host: None, most: None }]))
    }
}

impl FromStr for ConfigList {
    type Err = NoConfigList;

    fn from_str(text: &str) -> Result<Self, NoConfigList> {
        text.split(',').map(parse_entry).collect::<Option<_>>().map(Self).ok_or(NoConfigList)
    }
}

fn parse_entry(text: &str) -> Option<Entry> {
    let (host, most) = match text.split_once(':') {
        Some((host, most)) => (host.trim(), most.trim()),
        None => (text.trim(), "1"),
    };
    let is_name = !host.is_empty() && !host.contains(char::is_whitespace);
    let host = match host {
        "*" => None,
        host if is_name && !host.contains('*') => Some(host.to_owned()),
        _ => return None,
    };
    let is_number = !most.is_empty() && most.bytes().all(|byte| byte.is_ascii_digit());
    let most = match most {
        "*" => None,
        // A number that does not fit in a `u32` exceeds the number of ranks.
        most if is_number => Some(most.parse().unwrap_or(u32::MAX)),
        _ => return None,
    };
    Some(Entry { host, most })
}

impl fmt::Display for ConfigList {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, entry) in self.0.iter().enumerate() {
            let host = entry.host.as_deref().unwrap_or("*");
            write!(formatter, "{}{host}:", if at > 0 { "," } else { "" })?;
            match entry.most {
                Some(most) => write!(formatter, "{most}")?,
                None => formatter.write_str("*")?,
            }
        }
        Ok(())
    }
}

impl ConfigList {
    /// Whether the list can only be applied with the names of the nodes.
    pub fn names_hosts(&self) -> bool {
        self.0.iter().any(|entry| entry.host.is_some())
    }

    /// Whether the list allows an aggregator on any of these nodes. A list that allows none is not in
    /// force.
    pub fn fits(&self, names: &[String], node_ranks: &[u32]) -> bool {
        (0..node_ranks.len())
            .any(|node| self.entry_of(names, node).is_some_and(|(_, entry)| entry.most != Some(0)))
    }

    /// The entry that applies to a node, with its index.
    fn entry_of(&self, names: &[String], node: usize) -> Option<(usize, &Entry)> {
        let is_for = |entry: &Entry| match (&entry.host, names.get(node)) {
            (None, _) => true,
            (Some(host), name) => Some(host) == name,
        };
        self.0.iter().enumerate().find(|(_, entry)| is_for(entry))
    }
}

/// Returns the number of aggregators of each node. The sum is at least one. `asked` is `cb_nodes`: the
/// greatest sum over all nodes, 0 for no limit. `names` are the processor names of the leaders, which are
/// compared with `list`; they are not needed unless the list [names hosts](ConfigList::names_hosts).
/// `node_ranks` has the number of ranks of each node, at least one each. Nodes with the same name count
/// separately.
///
/// The entries of the list are served one after the other. The nodes of one entry get their aggregators
/// round robin.
pub fn aggregators_by_node(asked: u64, list: &ConfigList, names: &[String], node_ranks: &[u32]) -> Vec<u32> {
    let everywhere = ConfigList::default();
    let list = if list.fits(names, node_ranks) { list } else { &everywhere };
    let mut counts = vec![0; node_ranks.len()];
    // The nodes of each entry, with the greatest number of aggregators of each.
    let mut entries: Vec<Vec<(usize, u32)>> = vec![Vec::new(); list.0.len()];
    for (node, ranks) in node_ranks.iter().enumerate() {
        if let Some((at, entry)) = list.entry_of(names, node) {
            entries[at].push((node, entry.most.unwrap_or(u32::MAX).min(*ranks)));
        }
    }
    let mut left = if asked == 0 { u64::MAX } else { asked };
    for nodes in entries {
        left -= distribute(left, &nodes, &mut counts);
    }
    counts
}

/// Distributes `left` aggregators among the nodes round robin, and gives no node more than its limit.
/// Returns the number that was distributed.
fn distribute(left: u64, nodes: &[(usize, u32)], counts: &mut [u32]) -> u64 {
    let given_by = |passes: u32| nodes.iter().map(|(_, most)| u64::from(*most.min(&passes))).sum::<u64>();
    // The number of whole passes for which `left` suffices, by bisection.
    let (mut passes, mut beyond) =
        (0, nodes.iter().map(|(_, most)| *most).max().unwrap_or(0).saturating_add(1));
    while beyond - passes > 1 {
        let middle = passes + (beyond - passes) / 2;
        if given_by(middle) <= left { passes = middle } else { beyond = middle }
    }
    let mut given = given_by(passes);
    for (node, most) in nodes {
        counts[*node] = *most.min(&passes);
        if *most > passes && given < left {
            counts[*node] += 1;
            given += 1;
        }
    }
    given
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(text: &str) -> ConfigList {
        text.parse().expect("the list is valid")
    }

    #[test]
    fn config_lists_round_trip_and_malformed_ones_are_refused() {
        let cases = [
            ("*:*", "*:*"),
            ("*", "*:1"),
            ("*:3", "*:3"),
            ("box12:30,*:0", "box12:30,*:0"),
            (" n01 , n11:2 ,*:* ", "n01:1,n11:2,*:*"),
            ("a.b-c_d:99999999999999999999", "a.b-c_d:4294967295"),
        ];
        for (text, written) in cases {
            assert_eq!(list(text).to_string(), written, "{text}");
            assert_eq!(list(written), list(text), "{text}");
        }
        assert_eq!(list("*:*"), ConfigList::default());
        for text in ["", ",", "a:1,", ":1", "a:", "a:x", "a:-1", "a:+1", "a:1:2", "a b:1", "a*:1", "*:1;b:2"]
        {
            assert_eq!(text.parse::<ConfigList>(), Err(NoConfigList), "{text}");
        }
    }

    #[test]
    fn aggregators_follow_the_hints() {
        let names = ["a", "b", "c", "b"].map(str::to_owned);
        let cases: [(u64, &str, &[u32], &[u32]); 24] = [
            // every rank is an aggregator if there is no limit
            (0, "*:*", &[4, 2, 3], &[4, 2, 3]),
            (99, "*:*", &[4, 2, 3], &[4, 2, 3]),
            // round robin, with at least as many aggregators as nodes
            (3, "*:*", &[4, 2, 3], &[1, 1, 1]),
            (4, "*:*", &[4, 2, 3], &[2, 1, 1]),
            (7, "*:*", &[4, 2, 3], &[3, 2, 2]),
            (8, "*:*", &[4, 2, 3], &[3, 2, 3]),
            (9, "*:*", &[4, 2, 3], &[4, 2, 3]),
            // fewer aggregators than nodes
            (1, "*:*", &[4, 2, 3], &[1, 0, 0]),
            (2, "*:*", &[4, 2, 3], &[1, 1, 0]),
            (1, "*:*", &[1], &[1]),
            // a limit for each node
            (0, "*:1", &[4, 2, 3], &[1, 1, 1]),
            (0, "*:3", &[4, 2, 3], &[3, 2, 3]),
            (5, "*:2", &[4, 2, 3], &[2, 2, 1]),
            // entries that name hosts; two nodes are called `b`
            (0, "b:1", &[4, 2, 3, 2], &[0, 1, 0, 1]),
            (0, "c,a:2", &[4, 2, 3, 2], &[2, 0, 1, 0]),
            (1, "c,a:2", &[4, 2, 3, 2], &[0, 0, 1, 0]),
            (2, "c,a:2", &[4, 2, 3, 2], &[1, 0, 1, 0]),
            (3, "c:*,a:2", &[4, 2, 3, 2], &[0, 0, 3, 0]),
            (0, "c:30,*:0", &[4, 2, 3, 2], &[0, 0, 3, 0]),
            (5, "c:*,*:*", &[4, 2, 3, 2], &[1, 1, 3, 0]),
            // the first entry that matches applies
            (0, "a:1,a:3,*:2", &[4, 2, 3, 2], &[1, 2, 2, 2]),
            (0, "*:1,a:3", &[4, 2, 3, 2], &[1, 1, 1, 1]),
            // an entry that matches no node, or allows none: the list is not in force
            (0, "z:4", &[4, 2, 3, 2], &[4, 2, 3, 2]),
            (2, "a:0,*:0", &[4, 2, 3, 2], &[1, 1, 0, 0]),
        ];
        for (asked, text, node_ranks, expected) in cases {
            let found = aggregators_by_node(asked, &list(text), &names[..node_ranks.len()], node_ranks);
            assert_eq!(found, expected, "cb_nodes {asked}, {text} on {node_ranks:?}");
        }
        assert!(!list("z:4,c:0").fits(&names, &[4, 2, 3, 2]) && list("b:4").fits(&names, &[4, 2]));
        assert!(list("b:4").names_hosts() && !list("*:4").names_hosts());
    }

    #[test]
    fn there_is_an_aggregator_and_no_more_than_asked() {
        for asked in 0..12 {
            for text in ["*:*", "*:2", "*:0", "b:1", "b:*,a:0,*:1", "a:2,b:3"] {
                for code in 0..81 {
                    let node_ranks = [code % 3, code / 3 % 3, code / 9 % 3, code / 27].map(|ranks| ranks + 1);
                    let names = ["a", "b", "c", "a"].map(str::to_owned);
                    let found = aggregators_by_node(asked, &list(text), &names, &node_ranks);
                    let sum: u64 = found.iter().map(|count| u64::from(*count)).sum();
                    assert!(sum > 0 && (asked == 0 || sum <= asked));
                    assert!(found.iter().zip(node_ranks).all(|(count, ranks)| *count <= ranks));
                }
            }
        }
    }
}
