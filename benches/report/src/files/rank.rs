//! Finds the peers that need no more runs.

use super::median;
use super::merge::Contender;

/// Numbers of runs, and the factors by which a peer is slower than another after these runs so that it
/// cannot be the faster one, whatever more runs would show.
const FAR_BEHIND: [(usize, f64); 2] = [(3, 3.0), (1, 10.0)];

/// The numbers of the rows in which `peer` cannot become the faster of the peers, because its best run is
/// far slower than another peer's median.
pub fn hopeless(peer: &Contender, peers: &[Contender]) -> Vec<u32> {
    let mut ids: Vec<u32> = peer.runs.iter().flatten().map(|sample| sample.head.id).collect();
    ids.sort_unstable();
    ids.dedup();
    let good = |one: &Contender, id| -> Vec<f64> {
        one.samples(id)
            .filter(|(_, sample)| sample.fault.is_none())
            .map(|(_, sample)| sample.seconds)
            .collect()
    };
    ids.retain(|&id| {
        let own = good(peer, id);
        let best = own.iter().copied().fold(f64::INFINITY, f64::min);
        let Some((_, far)) = FAR_BEHIND.into_iter().find(|(runs, _)| own.len() >= *runs) else {
            return false;
        };
        peers.iter().any(|other| {
            other.fault(id).is_none()
                && median(&mut good(other, id)).is_some_and(|seconds| best > far * seconds)
        })
    });
    ids
}

#[cfg(test)]
mod tests {
    use super::super::canned::{contender, sample};
    use super::*;

    #[test]
    fn only_a_far_slower_peer_is_hopeless() {
        let slow_run = [sample(1, 4.0), sample(2, 2.0), sample(3, 11.0)];
        let slow_later = [sample(1, 9.0), sample(2, 9.0)];
        let fast = contender("b", &[&[sample(1, 1.0), sample(2, 1.0), sample(3, 1.0)]]);
        let once = contender("a", &[&slow_run]);
        assert_eq!(
            hopeless(&once, &[once.clone(), fast.clone()]),
            [3],
            "after one run only a peer that is 10 times slower is hopeless"
        );
        let slow = contender("a", &[&slow_run, &slow_later, &slow_later]);
        let both = [slow.clone(), fast.clone()];
        assert_eq!(hopeless(&slow, &both), [1, 3], "the best run of the peer counts");
        assert!(hopeless(&fast, &both).is_empty());
        assert!(hopeless(&slow, std::slice::from_ref(&slow)).is_empty());
    }

    #[test]
    fn failing_peer_makes_no_other_hopeless() {
        let mut wrong = sample(1, 0.1);
        wrong.fault = Some("wrong".into());
        let peers = [contender("a", &[&[sample(1, 9.0)]]), contender("b", &[&[wrong]])];
        assert!(hopeless(&peers[0], &peers).is_empty());
    }
}
