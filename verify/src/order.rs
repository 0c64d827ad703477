//! An order of accesses in which each reads what it did, or why there is none.
//!
//! What is known to come before what is kept as a closed relation. Besides each rank's own order, and that who is read was before the
//! reader, it follows from each cell that a reader has of one writer and that another one wrote as well: the other one was
//! before the writer, or after the reader. As long as the relation decides between the two, it grows; where it leads in a
//! circle, there is no order. What stays undecided is tried.

use std::fmt;

use crate::history::{Access, NOBODY, Round};

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// This order explains all reads: numbers of the accesses of the round.
    Serial(Vec<usize>),
    /// Each of these was before the next, and the last before the first.
    Circle(Vec<Step>),
    /// No order explains the reads, though no circle follows from any two of them.
    NoOrder,
    /// A cell was read that no access has written so.
    Torn {
        /// Who read it.
        reader: String,
        /// Which cell.
        cell: u32,
    },
    /// It was not found out within the number of tries.
    Undecided,
}

/// Why one access was before another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// Which.
    pub access: String,
    /// Why it was before the next.
    pub why: String,
}

impl fmt::Display for Verdict {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Serial(_) => formatter.write_str("there is an order"),
            Self::Circle(steps) => {
                formatter.write_str("no order explains what was read:")?;
                for Step { access, why } in steps {
                    write!(formatter, "\n    {access},\n        was before the next: {why}")?;
                }
                formatter.write_str("\n    and so on from the start")
            }
            Self::NoOrder => formatter.write_str("no order explains what was read"),
            Self::Torn { reader, cell } => {
                write!(
                    formatter,
                    "{reader} found in cell {cell} what no access of the round has written there"
                )
            }
            Self::Undecided => formatter.write_str("no order was found in as many tries as are made"),
        }
    }
}

/// Accesses that a relation takes, with those at the start and the end.
const NODES_MAX: usize = u128::BITS as usize;
const TRIES_MAX: u32 = 20_000;

#[derive(Debug, Clone, Copy)]
enum Why {
    Own,
    Read,
    /// `reader` has a cell of `writer` that `other` wrote too.
    Follows {
        reader: usize,
        writer: usize,
        other: usize,
    },
}

#[derive(Clone)]
struct Relation {
    /// For each, those that come after it.
    after: Vec<u128>,
    steps: Vec<(usize, usize, Why)>,
}

/// `a` cannot be before `b`: it is after it.
struct Contradiction(usize, usize, Why);

impl Relation {
    fn is_before(&self, a: usize, b: usize) -> bool {
        self.after[a] >> b & 1 == 1
    }

    fn add(&mut self, a: usize, b: usize, why: Why) -> Result<(), Contradiction> {
        if a == b || self.is_before(b, a) {
            return Err(Contradiction(a, b, why));
        }
        if !self.is_before(a, b) {
            self.steps.push((a, b, why));
            let gained = self.after[b] | 1 << b;
            for (node, after) in self.after.iter_mut().enumerate() {
                if node == a || *after >> a & 1 == 1 {
                    *after |= gained;
                }
            }
        }
        Ok(())
    }

    /// The steps that lead from one to another.
    fn path(&self, from: usize, to: usize) -> Vec<(usize, usize, Why)> {
        let mut came: Vec<Option<(usize, usize, Why)>> = vec![None; self.after.len()];
        let mut line = vec![from];
        let mut at = 0;
        while at < line.len() && came[to].is_none() {
            let here = line[at];
            for step in self.steps.iter().filter(|step| step.0 == here) {
                if step.1 != from && came[step.1].is_none() {
                    came[step.1] = Some(*step);
                    line.push(step.1);
                }
            }
            at += 1;
        }
        let mut path = Vec::new();
        let mut node = to;
        while let Some(step) = came[node] {
            path.push(step);
            node = step.0;
        }
        path.reverse();
        path
    }
}

/// A round as nodes: what was there at first, the accesses, what was there at the end.
struct Problem<'a> {
    round: &'a Round,
    /// By cell: those that wrote it.
    writers: Vec<u128>,
    /// Reader, writer, and those that wrote a cell that the reader has of the writer.
    reads: Vec<(usize, usize, u128)>,
}

/// Judges a round. Says of more accesses than can be told apart that it is undecided.
pub fn judge(round: &Round) -> Verdict {
    let nodes = round.accesses.len() + 2;
    if nodes > NODES_MAX {
        return Verdict::Undecided;
    }
    let problem = match Problem::of(round) {
        Ok(problem) => problem,
        Err(torn) => return torn,
    };
    let mut relation = Relation { after: vec![0; nodes], steps: Vec::new() };
    let known = problem.known(&mut relation).and_then(|()| problem.saturate(&mut relation));
    if let Err(contradiction) = known {
        return problem.circle(&relation, &contradiction);
    }
    let mut tries = TRIES_MAX;
    match problem.search(&relation, &mut tries) {
        Some(order) if problem.explains(&order) => Verdict::Serial(
            order.into_iter().filter(|node| (1..nodes - 1).contains(node)).map(|node| node - 1).collect(),
        ),
        Some(_) => Verdict::Undecided,
        None if tries == 0 => Verdict::Undecided,
        None => Verdict::NoOrder,
    }
}

fn bits(mut mask: u128) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let bit = (mask != 0).then(|| mask.trailing_zeros() as usize)?;
        mask &= mask - 1;
        Some(bit)
    })
}

impl<'a> Problem<'a> {
    fn of(round: &'a Round) -> Result<Self, Verdict> {
        let all = round.accesses.iter().chain(&round.last);
        let cells = all.flat_map(|access| &access.runs).map(|run| (run.start + run.cells) as usize).max();
        let mut problem = Self { round, writers: vec![1; cells.unwrap_or(0)], reads: Vec::new() };
        for (node, access) in problem.nodes().filter(|(_, access)| access.writes) {
            for run in &access.runs {
                for cell in run.start..run.start + run.cells {
                    problem.writers[cell as usize] |= 1 << node;
                }
            }
        }
        for (reader, access) in problem.nodes().filter(|(_, access)| !access.writes) {
            let mut seen = vec![0_u128; round.accesses.len() + 1];
            for run in &access.runs {
                let writer = problem.node_of(run.writer);
                for cell in run.start..run.start + run.cells {
                    let all = problem.writers[cell as usize];
                    match writer.filter(|writer| all >> writer & 1 == 1) {
                        Some(writer) => seen[writer] |= all,
                        None => return Err(Verdict::Torn { reader: access.to_string(), cell }),
                    }
                }
            }
            let reads = seen.into_iter().enumerate().filter(|(_, all)| *all != 0);
            problem.reads.extend(reads.map(|(writer, all)| (reader, writer, all & !(1 << writer))));
        }
        Ok(problem)
    }

    /// The accesses, and what was there at the end as the last one.
    fn nodes(&self) -> impl Iterator<Item = (usize, &'a Access)> + use<'a> {
        (1..).zip(self.round.accesses.iter().chain(&self.round.last))
    }

    fn access(&self, node: usize) -> Option<&'a Access> {
        self.nodes().find(|(at, _)| *at == node).map(|(_, access)| access)
    }

    fn node_of(&self, writer: u32) -> Option<usize> {
        if writer == NOBODY {
            return Some(0);
        }
        self.nodes().find(|(_, access)| access.writes && access.writer() == writer).map(|(node, _)| node)
    }

    /// What is known at first.
    fn known(&self, relation: &mut Relation) -> Result<(), Contradiction> {
        let last = relation.after.len() - 1;
        relation.add(0, last, Why::Own)?;
        for (node, _) in self.nodes().filter(|(node, _)| *node < last) {
            relation.add(0, node, Why::Own)?;
            relation.add(node, last, Why::Own)?;
        }
        for (a, first) in self.nodes().filter(|(node, _)| *node < last) {
            let later = self
                .nodes()
                .filter(|(node, then)| *node < last && then.rank == first.rank && first.index < then.group);
            for (b, _) in later {
                relation.add(a, b, Why::Own)?;
            }
        }
        for (reader, writer, _) in &self.reads {
            relation.add(*writer, *reader, Why::Read)?;
        }
        Ok(())
    }

    /// Adds all that follows.
    fn saturate(&self, relation: &mut Relation) -> Result<(), Contradiction> {
        loop {
            let before = relation.steps.len();
            for &(reader, writer, others) in &self.reads {
                for other in bits(others) {
                    let why = Why::Follows { reader, writer, other };
                    if relation.is_before(other, reader) {
                        relation.add(other, writer, why)?;
                    } else if relation.is_before(writer, other) {
                        relation.add(reader, other, why)?;
                    }
                }
            }
            if relation.steps.len() == before {
                return Ok(());
            }
        }
    }

    /// An order in which what is undecided is decided somehow.
    fn search(&self, relation: &Relation, tries: &mut u32) -> Option<Vec<usize>> {
        *tries = tries.checked_sub(1)?;
        let undecided = self.reads.iter().find_map(|&(reader, writer, others)| {
            let open =
                |other: &usize| !relation.is_before(*other, writer) && !relation.is_before(reader, *other);
            bits(others).find(open).map(|other| (reader, writer, other))
        });
        let Some((reader, writer, other)) = undecided else { return Some(sorted(relation)) };
        let why = Why::Follows { reader, writer, other };
        [(other, writer), (reader, other)].into_iter().find_map(|(a, b)| {
            let mut next = relation.clone();
            next.add(a, b, why).and_then(|()| self.saturate(&mut next)).ok()?;
            self.search(&next, tries)
        })
    }

    /// Whether the accesses, one after the other, read what they did.
    fn explains(&self, order: &[usize]) -> bool {
        let mut cells = vec![NOBODY; self.writers.len()];
        order.iter().filter_map(|node| self.access(*node)).all(|access| {
            access.runs.iter().all(|run| {
                let part = &mut cells[run.start as usize..][..run.cells as usize];
                if access.writes {
                    part.fill(run.writer);
                }
                part.iter().all(|cell| *cell == run.writer)
            })
        })
    }

    fn circle(&self, relation: &Relation, Contradiction(a, b, why): &Contradiction) -> Verdict {
        let mut steps = relation.path(*b, *a);
        steps.push((*a, *b, *why));
        Verdict::Circle(steps.into_iter().map(|step| self.told(step)).collect())
    }

    fn name(&self, node: usize) -> String {
        self.access(node).map_or_else(|| "what was there at first".to_owned(), Access::to_string)
    }

    fn told(&self, (a, b, why): (usize, usize, Why)) -> Step {
        let why = match why {
            Why::Own if a == 0 || b + 1 == self.round.accesses.len() + 2 => {
                "that is where it begins and ends".to_owned()
            }
            Why::Own => "the rank itself made them in this order".to_owned(),
            Why::Read => {
                let cell = self.cell(b, a, None);
                format!("it wrote cell {cell} as the next read it")
            }
            Why::Follows { reader, writer, other } => {
                let cell = self.cell(reader, writer, Some(other));
                let [reader, writer, other] = [reader, writer, other].map(|node| self.name(node));
                format!(
                    "in cell {cell}, which {other}, wrote as well, {reader}, has found what is of {writer}"
                )
            }
        };
        Step { access: self.name(a), why }
    }

    /// A cell that a reader has of a writer, and that another one wrote too.
    fn cell(&self, reader: usize, writer: usize, other: Option<usize>) -> u32 {
        let runs = self.access(reader).into_iter().flat_map(|access| &access.runs);
        let mut cells = runs
            .filter(|run| self.node_of(run.writer) == Some(writer))
            .flat_map(|run| run.start..run.start + run.cells);
        let is_it = |cell: &u32| other.is_none_or(|other| self.writers[*cell as usize] >> other & 1 == 1);
        cells.find(is_it).unwrap_or(0)
    }
}

/// All nodes so that each comes after those before it.
fn sorted(relation: &Relation) -> Vec<usize> {
    let mut nodes: Vec<usize> = (0..relation.after.len()).collect();
    // Who is before another has all that the other has after it, and the other.
    nodes.sort_by_key(|node| std::cmp::Reverse(relation.after[*node].count_ones()));
    nodes
}
