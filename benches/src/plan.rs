//! The rows that are measured, and their order.

use std::io::Write;

use capulet_bench_report::{Line, Measured, Start};

use crate::calls::{self, Call};
use crate::cases::transpack::{COUNTS, Pair, pairs};
use crate::cases::{self, Case};
use crate::error::BenchError;
use crate::moves;
use crate::mpi_side::Mpi;
use crate::sample::Effort;
use crate::transpack;

/// A group of suites.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bench {
    /// Packing, unpacking and encoding, and single calls.
    Datatype,
    /// Copies from one type to another.
    Transpack,
}

/// Rows to be measured.
pub struct Plan {
    pattern: Option<String>,
    moves: Vec<Case>,
    calls: Vec<Call>,
    copies: Vec<(Pair, u64)>,
}

impl Plan {
    /// The rows of `bench` whose text `suite case element op` contains the pattern, without regard to
    /// upper and lower case. All rows if there is no pattern.
    pub fn new(bench: Bench, pattern: Option<&str>) -> Self {
        let mut plan = Self {
            pattern: pattern.map(str::to_lowercase),
            moves: Vec::new(),
            calls: Vec::new(),
            copies: Vec::new(),
        };
        match bench {
            Bench::Datatype => {
                plan.moves = cases::all();
                plan.calls = calls::all();
            }
            Bench::Transpack => {
                for count in COUNTS {
                    plan.copies.extend(pairs().into_iter().map(|pair| (pair, count)));
                }
            }
        }
        plan.keep_wanted();
        plan
    }

    fn wants(&self, suite: &str, case: &str, element: &str, op: &str) -> bool {
        let name = format!("{suite} {case} {element} {op}").to_lowercase();
        self.pattern.as_ref().is_none_or(|pattern| name.contains(pattern))
    }

    fn wants_move(&self, case: &Case, op: &str) -> bool {
        self.wants(case.suite, &case.name, case.element, op)
    }

    fn wants_call(&self, call: &Call) -> bool {
        self.wants(calls::SUITE, call.case, call.element, call.op)
    }

    fn wants_copy(&self, pair: &Pair, count: u64, op: &str) -> bool {
        self.wants(transpack::SUITE, &transpack::name(pair, count), pair.element, op)
    }

    /// Drops the cases without a wanted row, which would be built and compared for nothing.
    fn keep_wanted(&mut self) {
        let mut moves = std::mem::take(&mut self.moves);
        moves.retain(|case| moves::ops_of(case).iter().any(|op| self.wants_move(case, op)));
        self.moves = moves;
        let mut calls = std::mem::take(&mut self.calls);
        calls.retain(|call| self.wants_call(call));
        self.calls = calls;
        let mut copies = std::mem::take(&mut self.copies);
        copies.retain(|(pair, count)| transpack::OPS.iter().any(|op| self.wants_copy(pair, *count, op)));
        self.copies = copies;
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        let moves = self
            .moves
            .iter()
            .map(|case| moves::ops_of(case).iter().filter(|op| self.wants_move(case, op)).count());
        let copies = self.copies.iter().map(|(pair, count)| {
            transpack::OPS.iter().filter(|op| self.wants_copy(pair, *count, op)).count()
        });
        moves.sum::<usize>() + self.calls.len() + copies.sum::<usize>()
    }

    /// Measures all rows, and writes each to `output` as a line of JSON as soon as it is measured.
    ///
    /// # Errors
    /// If two contenders disagree, or the lines cannot be written.
    pub fn run(&self, mpi: &Mpi, effort: Effort, output: &mut impl Write) -> Result<(), BenchError> {
        write(output, &Line::Start(Start { library: mpi.library(), rows: self.rows() }))?;
        let mut written = Ok(());
        let mut report = |row: Measured| {
            if written.is_ok() {
                written = write(output, &Line::Row(row));
            }
        };
        for case in &self.moves {
            moves::rows(mpi, case, effort, |op| self.wants_move(case, op), &mut report)?;
        }
        for call in &self.calls {
            report(call.row(mpi, effort)?);
        }
        for (pair, count) in &self.copies {
            let wanted = |op: &str| self.wants_copy(pair, *count, op);
            transpack::rows(mpi, pair, *count, effort, wanted, &mut report)?;
        }
        written
    }
}

fn write(output: &mut impl Write, line: &Line) -> Result<(), BenchError> {
    serde_json::to_writer(&mut *output, line).map_err(std::io::Error::from)?;
    output.write_all(b"\n")?;
    output.flush()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pattern_selects_rows() {
        assert_eq!(Plan::new(Bench::Datatype, Some("contig")).rows(), 6);
        assert_eq!(Plan::new(Bench::Datatype, Some("Contig double pack")).rows(), 1);
        assert_eq!(Plan::new(Bench::Datatype, Some("no such case")).rows(), 0);
        assert_eq!(Plan::new(Bench::Transpack, Some("x13")).rows(), 6 * transpack::OPS.len());
    }

    #[test]
    fn plan_has_all_cases_of_the_papers() {
        let table1 = 9 * 2 * 3;
        let flash = 10 * 4;
        let applications = 14 * 3;
        assert_eq!(
            Plan::new(Bench::Datatype, None).rows(),
            table1 + flash + applications + calls::all().len()
        );
        assert_eq!(Plan::new(Bench::Transpack, None).rows(), 13 * 6 * transpack::OPS.len());
    }
}
