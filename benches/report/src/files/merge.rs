//! Merges the launches of all contenders to rows.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::line::{Head, Sample};
use super::{median, median_interval};

/// Counters of a row, by name, summed over the ranks.
pub type Counts = BTreeMap<String, u64>;

/// A row in which a launch failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lost {
    /// The row.
    pub head: Head,
    /// How the launch ended.
    pub reason: String,
}

/// One file layer, over all runs.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Contender {
    /// Name of the layer.
    pub name: String,
    /// The samples of each run. A row may be missing in a run.
    pub runs: Vec<Vec<Sample>>,
    /// Rows in which a launch failed. They are skipped in later launches.
    pub lost: Vec<Lost>,
}

impl Contender {
    /// The sample of a row in each run that has one, with the number of the run.
    pub(super) fn samples(&self, id: u32) -> impl Iterator<Item = (usize, &Sample)> {
        let of_run = move |(run, samples): (usize, &'_ Vec<Sample>)| {
            samples.iter().position(|sample| sample.head.id == id).map(|at| (run, at))
        };
        self.runs.iter().enumerate().filter_map(of_run).map(|(run, at)| (run, &self.runs[run][at]))
    }

    /// The fault in a row, in any run.
    pub(super) fn fault(&self, id: u32) -> Option<String> {
        let lost = self.lost.iter().find(|lost| lost.head.id == id).map(|lost| lost.reason.clone());
        lost.or_else(|| self.samples(id).find_map(|(_, sample)| sample.fault.clone()))
    }
}

/// All launches on one MPI, one storage and one number of ranks.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// The MPI.
    pub mpi: String,
    /// The storage.
    pub storage: String,
    /// Ranks.
    pub ranks: u32,
    /// Capulet.
    pub ours: Contender,
    /// The MPI's own layers.
    pub peers: Vec<Contender>,
    /// Capulet's counters, by the number of the row, from a separate launch.
    pub counts: BTreeMap<u32, Counts>,
}

/// A peer in a row.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PeerRow {
    /// Name of the peer.
    pub name: String,
    /// The median of its seconds. `None` if it has no sample without a fault.
    pub seconds: Option<f64>,
    /// The median of the limit's seconds, measured beside this peer. If it is far from the limit beside
    /// Capulet, the machine was not the same for both.
    pub limit_seconds: Option<f64>,
    /// The median over the runs of its seconds divided by Capulet's: how many times faster Capulet is.
    pub ratio: Option<f64>,
    /// The interval that contains the median ratio with a probability of at least 95 %. `None` for fewer than
    /// 6 runs.
    pub interval: Option<(f64, f64)>,
    /// The median of what atomic mode adds to one access, in raw round trips.
    pub round_trips: Option<f64>,
    /// Number of runs in the ratio.
    pub runs: usize,
    /// Why the peer does not count in this row.
    pub fault: Option<String>,
    /// Bytes that the peer wrote into the holes of a fresh file.
    pub strays: u64,
}

/// A row against the faster of the peers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The MPI.
    pub mpi: String,
    /// The storage.
    pub storage: String,
    /// Ranks.
    pub ranks: u32,
    /// The row.
    #[serde(flatten)]
    pub head: Head,
    /// Payload of all ranks.
    pub bytes: u64,
    /// Runs of the file.
    pub pieces: u64,
    /// Accesses, or openings.
    pub operations: u64,
    /// The median of Capulet's seconds.
    pub seconds: Option<f64>,
    /// The median of Capulet's seconds for the view.
    pub view_seconds: Option<f64>,
    /// The median of the limit's seconds, measured beside Capulet.
    pub limit_seconds: Option<f64>,
    /// The median over Capulet's runs of the limit's seconds divided by Capulet's.
    pub limit_share: Option<f64>,
    /// The median of Capulet's seconds for the same accesses without atomic mode. `None` if not measured.
    pub plain_seconds: Option<f64>,
    /// The median of the seconds of one raw round trip, measured beside Capulet. `None` if not measured.
    pub round_trip_seconds: Option<f64>,
    /// The median over Capulet's runs of what atomic mode adds to one access, in raw round trips.
    pub round_trips: Option<f64>,
    /// Name of the faster peer. `None` if no peer counts.
    pub peer: Option<String>,
    /// The ratio to this peer.
    pub ratio: Option<f64>,
    /// All peers.
    pub peers: Vec<PeerRow>,
    /// Capulet's counters.
    pub counts: Option<Counts>,
    /// The fault of Capulet. A row with a fault has no ratio.
    pub fault: Option<String>,
}

impl Row {
    /// The peer to which the ratio refers.
    pub fn best_peer(&self) -> Option<&PeerRow> {
        self.peers.iter().find(|peer| Some(&peer.name) == self.peer.as_ref())
    }
}

/// Returns the rows of a group, in the order of their numbers.
pub fn merge(group: &Group) -> Vec<Row> {
    let mut heads: BTreeMap<u32, &Head> = BTreeMap::new();
    for contender in std::iter::once(&group.ours).chain(&group.peers) {
        let measured = contender.runs.iter().flatten().map(|sample| &sample.head);
        for head in measured.chain(contender.lost.iter().map(|lost| &lost.head)) {
            heads.insert(head.id, head);
        }
    }
    heads.into_values().map(|head| row_of(group, head)).collect()
}

fn row_of(group: &Group, head: &Head) -> Row {
    let ours = &group.ours;
    let of_some = |value: fn(&Sample) -> Option<f64>| {
        median(&mut ours.samples(head.id).filter_map(|(_, sample)| value(sample)).collect::<Vec<_>>())
    };
    let of_ours = |value: fn(&Sample) -> f64| {
        median(&mut ours.samples(head.id).map(|(_, sample)| value(sample)).collect::<Vec<_>>())
    };
    let peers: Vec<PeerRow> = group.peers.iter().map(|peer| peer_row(ours, peer, head.id)).collect();
    let fault = fault_of_ours(group, head.id);
    let faster = peers
        .iter()
        .filter(|peer| fault.is_none() && peer.fault.is_none() && peer.ratio.is_some())
        .min_by(|a, b| a.seconds.unwrap_or(f64::MAX).total_cmp(&b.seconds.unwrap_or(f64::MAX)));
    let any = std::iter::once(ours).chain(&group.peers).find_map(|one| one.samples(head.id).next());
    let (bytes, pieces, operations) =
        any.map_or((0, 0, 0), |(_, sample)| (sample.bytes, sample.pieces, sample.operations));
    Row {
        mpi: group.mpi.clone(),
        storage: group.storage.clone(),
        ranks: group.ranks,
        head: head.clone(),
        bytes,
        pieces,
        operations,
        seconds: of_ours(|sample| sample.seconds),
        view_seconds: of_ours(|sample| sample.view_seconds),
        limit_seconds: of_ours(|sample| sample.limit_seconds),
        limit_share: of_ours(|sample| sample.limit_seconds / sample.seconds),
        plain_seconds: of_some(|sample| sample.plain_seconds),
        round_trip_seconds: of_some(|sample| sample.round_trip_seconds),
        round_trips: of_some(Sample::round_trips),
        peer: faster.map(|peer| peer.name.clone()),
        ratio: faster.and_then(|peer| peer.ratio),
        peers: peers.clone(),
        counts: group.counts.get(&head.id).cloned(),
        fault,
    }
}

fn peer_row(ours: &Contender, peer: &Contender, id: u32) -> PeerRow {
    let good = || peer.samples(id).filter(|(_, sample)| sample.fault.is_none());
    let mut ratios: Vec<f64> = good()
        .filter_map(|(run, theirs)| {
            let (_, own) = ours.samples(id).find(|(own_run, _)| *own_run == run)?;
            Some(theirs.seconds / own.seconds)
        })
        .collect();
    PeerRow {
        name: peer.name.clone(),
        seconds: median(&mut good().map(|(_, sample)| sample.seconds).collect::<Vec<_>>()),
        limit_seconds: median(&mut good().map(|(_, sample)| sample.limit_seconds).collect::<Vec<_>>()),
        ratio: median(&mut ratios),
        interval: median_interval(&mut ratios),
        round_trips: median(&mut good().filter_map(|(_, sample)| sample.round_trips()).collect::<Vec<_>>()),
        runs: ratios.len(),
        fault: peer.fault(id),
        strays: peer.samples(id).map(|(_, sample)| sample.strays).max().unwrap_or(0),
    }
}

/// The fault of Capulet in a row: an error, a wrong byte, a hole that is not empty, or a file that
/// differs from another contender's.
fn fault_of_ours(group: &Group, id: u32) -> Option<String> {
    let ours = &group.ours;
    if let Some(fault) = ours.fault(id) {
        return Some(fault);
    }
    if let Some((_, sample)) = ours.samples(id).find(|(_, sample)| sample.strays > 0) {
        return Some(format!("{} bytes in holes are not 0", sample.strays));
    }
    let Some((_, first)) = ours.samples(id).next() else { return Some("was not measured".to_owned()) };
    // A peer that fills holes with other bytes is reported elsewhere. Its file cannot be compared.
    let comparable = |sample: &Sample| sample.fault.is_none() && sample.strays == 0;
    let all = std::iter::once(ours).chain(&group.peers);
    let mut others = all.flat_map(|one| one.samples(id).map(move |(_, sample)| (&one.name, sample)));
    others
        .find(|(_, sample)| comparable(sample) && sample.hash != first.hash)
        .map(|(name, _)| format!("the file differs from that of {name}"))
}

#[cfg(test)]
mod tests {
    use super::super::canned::{contender, group, sample};
    use super::*;

    fn only_row(group: &Group) -> Row {
        let mut rows = merge(group);
        assert_eq!(rows.len(), 1);
        rows.remove(0)
    }

    #[test]
    fn ratios_are_paired_by_run() {
        // In each run the peers take twice and three times as long, although the speed of the machine
        // changes.
        let ours = contender("capulet", &[&[sample(7, 1.0)], &[sample(7, 10.0)], &[sample(7, 100.0)]]);
        let twice = contender("ompio", &[&[sample(7, 2.0)], &[sample(7, 20.0)], &[sample(7, 200.0)]]);
        let thrice = contender("romio", &[&[sample(7, 3.0)], &[sample(7, 30.0)], &[sample(7, 300.0)]]);
        let row = only_row(&group(ours, vec![thrice, twice]));
        assert_eq!((row.peer.as_deref(), row.ratio), (Some("ompio"), Some(2.0)));
        assert_eq!(row.peers[0].ratio, Some(3.0));
        assert_eq!((row.seconds, row.limit_share), (Some(10.0), Some(0.05)));
    }

    #[test]
    fn atomic_mode_costs_the_time_beyond_the_plain_accesses() {
        let far = |seconds| Sample {
            operations: 8,
            plain_seconds: Some(1.0),
            round_trip_seconds: Some(0.0625),
            ..sample(7, seconds)
        };
        let ours = contender("capulet", &[&[far(2.0)], &[far(2.5)], &[far(9.0)]]);
        let row = only_row(&group(ours, vec![contender("romio", &[&[far(4.0)]])]));
        assert_eq!((row.plain_seconds, row.round_trip_seconds), (Some(1.0), Some(0.0625)));
        assert_eq!((row.round_trips, row.peers[0].round_trips), (Some(3.0), Some(6.0)));
        let unconnected = Sample { round_trip_seconds: None, ..far(2.0) };
        assert_eq!(unconnected.round_trips(), None);
        assert_eq!(sample(7, 2.0).round_trips(), None);
    }

    #[test]
    fn runs_without_a_partner_do_not_count() {
        let ours = contender("capulet", &[&[sample(7, 1.0)], &[sample(7, 1.0)]]);
        let peer = contender("romio", &[&[], &[sample(7, 4.0)]]);
        let row = only_row(&group(ours, vec![peer]));
        assert_eq!((row.ratio, row.peers[0].runs), (Some(4.0), 1));
    }

    #[test]
    fn failing_peer_is_left_out_with_its_reason() {
        let wrong = Sample { fault: Some("wrong bytes".into()), ..sample(7, 0.5) };
        let ours = || contender("capulet", &[&[sample(7, 1.0)]]);
        let ompio = contender("ompio", &[&[wrong]]);
        let romio = contender("romio", &[&[sample(7, 3.0)]]);
        let row = only_row(&group(ours(), vec![ompio.clone(), romio]));
        assert_eq!((row.peer.as_deref(), row.ratio), (Some("romio"), Some(3.0)));
        assert_eq!(row.peers[0].fault.as_deref(), Some("wrong bytes"));
        let mut died = contender("romio", &[&[]]);
        died.lost.push(Lost { head: sample(7, 1.0).head, reason: "took too long".into() });
        let row = only_row(&group(ours(), vec![ompio, died]));
        assert_eq!((row.peer, row.ratio, row.fault), (None, None, None));
        assert_eq!(row.peers[1].fault.as_deref(), Some("took too long"));
    }

    #[test]
    fn differing_file_is_a_fault_of_capulet() {
        let other = Sample { hash: "another".into(), ..sample(7, 2.0) };
        let ours = || contender("capulet", &[&[sample(7, 1.0)]]);
        let row = only_row(&group(ours(), vec![contender("romio", &[std::slice::from_ref(&other)])]));
        assert_eq!(row.fault.as_deref(), Some("the file differs from that of romio"));
        assert_eq!(row.ratio, None);
        // The bytes that a peer leaves in holes make its file differ, and are no reason to leave the row
        // out.
        let strays = Sample { strays: 9, ..other };
        let row = only_row(&group(ours(), vec![contender("romio", &[&[strays]])]));
        assert_eq!((row.fault, row.ratio, row.peers[0].strays), (None, Some(2.0), 9));
    }

    #[test]
    fn faults_of_capulet_are_reported() {
        let peer = || vec![contender("romio", &[&[sample(7, 2.0)]])];
        let fault_of = |sample: Sample| only_row(&group(contender("capulet", &[&[sample]]), peer())).fault;
        assert_eq!(fault_of(sample(7, 1.0)), None);
        assert!(
            fault_of(Sample { strays: 3, ..sample(7, 1.0) }).is_some_and(|fault| fault.contains("3 bytes"))
        );
        assert!(fault_of(Sample { fault: Some("read: bad".into()), ..sample(7, 1.0) }).is_some());
        let row = only_row(&group(contender("capulet", &[&[]]), peer()));
        assert_eq!(row.fault.as_deref(), Some("was not measured"));
    }
}
