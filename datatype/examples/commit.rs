//! The cost of types before any byte moves: building lists of 10^6 entries, bringing them to canonical form,
//! seeking, and walking runs.
//!
//! `cargo run --release -p capulet-datatype --example commit` prints medians of processor time.

use std::hint::black_box;
use std::ops::ControlFlow;

use nix::time::{ClockId, clock_gettime};

use capulet_datatype::{ArrayOrder, Cursor, Datatype, Named, Result, Tiled};

const ENTRIES: usize = 1_000_000;

/// The processor time of this thread, in seconds.
fn now() -> f64 {
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("the clock of the thread is readable");
    time.tv_sec() as f64 + time.tv_nsec() as f64 * 1e-9
}

struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// The median of the seconds that `run` takes. Its result is dropped outside of the measured time.
fn seconds<T>(repetitions: usize, mut run: impl FnMut() -> T) -> f64 {
    let time = |run: &mut dyn FnMut() -> T| {
        let start = now();
        let result = run();
        let seconds = now() - start;
        drop(black_box(result));
        seconds
    };
    median((0..repetitions).map(|_| time(&mut run)).collect())
}

/// Ascending places with gaps of `1 + below(spread)` between runs of the given lengths.
fn places(lengths: &[u64], spread: u64) -> Vec<i64> {
    let (mut random, mut at) = (Random(42), 0);
    let mut next = |length: &u64| {
        let here = at;
        at += (length + 1 + random.below(spread)) as i64;
        here
    };
    lengths.iter().map(&mut next).collect()
}

type Build<'a> = Box<dyn Fn() -> Result<Datatype> + 'a>;

fn commit() -> Result<Vec<(&'static str, Datatype)>> {
    let double = Datatype::named(Named::Double);
    let ones = vec![1; ENTRIES];
    let mut random = Random(7);
    let varied: Vec<u64> = (0..ENTRIES).map(|_| 1 + random.below(5)).collect();
    let (sparse, dense, mixed) = (places(&ones, 20), places(&ones, 3), places(&varied, 20));
    let mixed_bytes: Vec<i64> = mixed.iter().map(|place| place * 8).collect();
    let mut falling = sparse.clone();
    falling.reverse();
    let types = vec![double.clone(); ENTRIES];
    let builds: Vec<(&str, Build<'_>)> = vec![
        ("indexed_block, sparse", Box::new(|| Datatype::indexed_block(1, &sparse, &double))),
        ("indexed_block, dense", Box::new(|| Datatype::indexed_block(1, &dense, &double))),
        ("indexed_block, falling", Box::new(|| Datatype::indexed_block(1, &falling, &double))),
        ("indexed, equal lengths", Box::new(|| Datatype::indexed(&ones, &sparse, &double))),
        ("indexed, own lengths", Box::new(|| Datatype::indexed(&varied, &mixed, &double))),
        ("hindexed, own lengths", Box::new(|| Datatype::hindexed(&varied, &mixed_bytes, &double))),
        ("struct, own lengths", Box::new(|| Datatype::structure(&varied, &mixed_bytes, &types))),
    ];
    let mut made = Vec::new();
    println!("{:<28}{:>10}{:>12}{:>14}", "10^6 entries", "build ms", "layout ms", "B per entry");
    for (name, build) in builds {
        let building = seconds(15, || build().expect("the type fits"));
        let both = seconds(15, || {
            let datatype = build().expect("the type fits");
            (datatype.layout().size(), datatype)
        });
        let datatype = build()?;
        let per_entry = datatype.layout().heap_bytes() as f64 / ENTRIES as f64;
        println!("{name:<28}{:>10.2}{:>12.2}{per_entry:>14.3}", building * 1e3, (both - building) * 1e3);
        made.push((name, datatype));
    }
    Ok(made)
}

fn strided() -> Result<Vec<(&'static str, Datatype)>> {
    let double = Datatype::named(Named::Double);
    let row = Datatype::vector(100, 1, 2, &double)?;
    let plane = Datatype::hvector(90, 1, 2000, &row)?;
    let cube = Datatype::hvector(80, 1, 200_000, &plane)?;
    let hyper = Datatype::hvector(70, 1, 20_000_000, &cube)?;
    let inner = Datatype::subarray(&[200, 200, 200], &[100, 100, 6], &[3, 4, 5], ArrayOrder::C, &double)?;
    let record = Datatype::structure(
        &[1, 3, 1, 2],
        &[0, 12, 32, 44],
        &[
            double.clone(),
            Datatype::named(Named::Int),
            Datatype::named(Named::Char),
            Datatype::named(Named::Float),
        ],
    )?;
    let records = Datatype::contiguous(100_000, &Datatype::resized(0, 64, &record)?)?;
    Ok(vec![
        ("vector", Datatype::vector(1_000_000, 1, 2, &double)?),
        ("2 dimensions", plane),
        ("3 dimensions", cube),
        ("4 dimensions", hyper),
        ("subarray, short rows", inner),
        ("records of 4 fields", records),
    ])
}

/// Nanoseconds per call of `n` calls, as the median of several rounds.
fn each(n: u64, mut call: impl FnMut(u64)) -> f64 {
    let round = |call: &mut dyn FnMut(u64)| {
        let start = now();
        (0..n).for_each(&mut *call);
        (now() - start) * 1e9 / n as f64
    };
    median((0..9).map(|_| round(&mut call)).collect())
}

fn main() -> Result<()> {
    let mut types = commit()?;
    types.extend(strided()?);
    println!("\n{:<28}{:>12}{:>12}{:>14}{:>12}", "ns", "seek+peek", "offset_of", "bytes_below", "per run");
    for (name, datatype) in types {
        let tiled = Tiled::new(datatype.layout().clone(), 2)?;
        let (size, mut random) = (tiled.size(), Random(3));
        let streams: Vec<u64> =
            (0..100_000).map(|_| random.below(size.min(1 << 31)) * (size >> 31).max(1)).collect();
        let offsets: Vec<i64> = streams.iter().map(|&stream| tiled.offset_of(stream)).collect();
        let at = |i: u64| (i % 100_000) as usize;
        let mut cursor = Cursor::new(tiled.clone());
        let seek = each(100_000, |i| {
            cursor.seek(streams[at(i)]);
            black_box(cursor.peek());
        });
        let there = each(100_000, |i| _ = black_box(tiled.offset_of(streams[at(i)])));
        let back = each(100_000, |i| _ = black_box(tiled.bytes_below(offsets[at(i)])));
        let mut runs = 0_u64;
        let start = now();
        while now() - start < 0.2 {
            cursor.seek(0);
            let _ = cursor.for_each_run(size.min(1 << 24), |run| {
                black_box(run);
                runs += 1;
                ControlFlow::<()>::Continue(())
            });
        }
        let walk = (now() - start) * 1e9 / runs as f64;
        println!("{name:<28}{seek:>12.1}{there:>12.1}{back:>14.1}{walk:>12.2}");
    }
    Ok(())
}
