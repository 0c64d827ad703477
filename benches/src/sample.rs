//! Samples of several contenders, taken side by side.
//!
//! A round takes one sample of each contender, in a random order, so that no contender always runs after
//! the same other one. A sample is as many calls as fill the sample time, after one call that does not
//! count. Only samples of one round are compared: whatever the machine does to one of them, it most
//! likely does to the other.

use capulet_bench_report::{Other, Peer, Times};

use crate::clock::thread_seconds;
use crate::random::Random;

/// How much is measured.
#[derive(Debug, Clone, Copy)]
pub struct Effort {
    /// Rounds of a row.
    pub rounds: usize,
    /// Shortest time of a sample, in seconds.
    pub sample_seconds: f64,
}

/// One way to do the op of a row. The second argument is the number of calls.
pub(crate) type Calls<'a, S> = Box<dyn FnMut(&mut S, u64) + 'a>;

/// Repeats one call. The black box keeps the compiler from relating the calls to each other.
pub(crate) fn repeated<'a, S>(mut call: impl FnMut(&mut S) + 'a) -> Calls<'a, S> {
    Box::new(move |stage, times| {
        for _ in 0..times {
            call(std::hint::black_box(&mut *stage));
        }
    })
}

struct Contender<'a, S> {
    calls: Calls<'a, S>,
    times: u64,
    samples: Vec<f64>,
}

/// Times Capulet's calls and the others' on one stage.
pub(crate) fn compare<S>(
    effort: Effort,
    stage: &mut S,
    ours: Calls<'_, S>,
    others: Vec<(Peer, Calls<'_, S>)>,
) -> (Times, Vec<Other>) {
    let (peers, calls): (Vec<Peer>, Vec<_>) = others.into_iter().unzip();
    let mut contenders: Vec<Contender<'_, S>> = std::iter::once(ours)
        .chain(calls)
        .map(|calls| Contender { calls, times: 1, samples: Vec::with_capacity(effort.rounds) })
        .collect();
    for contender in &mut contenders {
        contender.times = calls_in(effort.sample_seconds, stage, &mut contender.calls);
    }
    let mut random = Random::new(effort.rounds as u64);
    let mut order: Vec<usize> = (0..contenders.len()).collect();
    for _ in 0..effort.rounds {
        random.shuffle(&mut order);
        for &at in &order {
            let Contender { calls, times, samples } = &mut contenders[at];
            calls(stage, 1);
            samples.push(seconds(stage, calls, *times) / *times as f64);
        }
    }
    let ours = &contenders[0].samples;
    let others = peers.into_iter().zip(&contenders[1..]).map(|(peer, contender)| {
        let ratios = contender.samples.iter().zip(ours).map(|(theirs, ours)| theirs / ours);
        Other { peer, times: times_of(&contender.samples), ratio: median(ratios.collect()) }
    });
    (times_of(ours), others.collect())
}

fn seconds<S>(stage: &mut S, calls: &mut Calls<'_, S>, times: u64) -> f64 {
    let start = thread_seconds();
    calls(stage, times);
    thread_seconds() - start
}

/// The number of calls that fill the time.
fn calls_in<S>(wanted_seconds: f64, stage: &mut S, calls: &mut Calls<'_, S>) -> u64 {
    calls(stage, 1);
    let mut times = 1;
    loop {
        let taken = seconds(stage, calls, times);
        if taken >= wanted_seconds {
            return times;
        }
        // The clock dominates a short sample, so only the order of magnitude grows then.
        let factor = if taken < wanted_seconds / 10.0 { 8.0 } else { 1.1 * wanted_seconds / taken };
        times = (times as f64 * factor).ceil() as u64;
    }
}

fn times_of(samples: &[f64]) -> Times {
    Times { median: median(samples.to_vec()), best: samples.iter().copied().fold(f64::INFINITY, f64::min) }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 { values[middle] } else { f64::midpoint(values[middle - 1], values[middle]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_contender_is_called_in_every_round() {
        let effort = Effort { rounds: 5, sample_seconds: 1e-4 };
        let spin = |at: usize| {
            repeated(move |calls: &mut [u64; 2]| {
                calls[at] += 1;
                for i in 0..1_000_u64 {
                    std::hint::black_box(i);
                }
            })
        };
        let mut calls = [0; 2];
        let (ours, others) = compare(effort, &mut calls, spin(0), vec![(Peer::Hand, spin(1))]);
        // One warm-up call and one timed call in each round, and at least two calls to find the number of
        // calls.
        assert!(calls.iter().all(|calls| *calls >= 12), "{calls:?}");
        assert!(0.0 < ours.best && ours.best <= ours.median, "{ours:?}");
        assert_eq!((others.len(), others[0].peer), (1, Peer::Hand));
        assert!(others[0].ratio > 0.0, "{others:?}");
    }

    #[test]
    fn medians_are_right() {
        assert!((median(vec![3.0, 1.0, 2.0]) - 2.0).abs() < 1e-12);
        assert!((median(vec![4.0, 1.0, 2.0, 3.0]) - 2.5).abs() < 1e-12);
    }
}
