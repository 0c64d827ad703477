//! A search for an order of accesses in which each access reads what it has read, or for the reason why
//! no such order exists.
//!
//! The accesses that are known to come before others are kept as a transitively closed relation. It has
//! three sources. First, each rank's own order. Second, a writer comes before a reader that has read its
//! cells. Third, if a reader has read a cell of one writer, and another access wrote that cell as well,
//! then the other access came before the writer, or after the reader. As long as the relation decides
//! between these two, it grows. If it contains a cycle, no order exists. A choice that stays undecided is
//! tried both ways.

use std::fmt;

use crate::history::{Access, NOBODY, Round};

/// The result of a judgment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// This order explains all reads. It has indices of the accesses of the round.
    Serial(Vec<usize>),
    /// A cycle: each of these accesses was before the next, and the last one was before the first one.
    Circle(Vec<Step>),
    /// No order explains the reads, although the relation itself contains no cycle.
    NoOrder,
    /// A read found a cell that no access has written with this value.
    Torn {
        /// The access that read the cell.
        reader: String,
        /// The number of the cell.
        cell: u32,
    },
    /// No result within the limit of tries, or too many accesses.
    Undecided,
}

/// One step of a cycle: an access that was before the next one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// The access.
    pub access: String,
    /// The reason why it was before the next one.
    pub why: String,
}

impl fmt::Display for Verdict {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Serial(_) => formatter.write_str("an order explains what was read"),
            Self::Circle(steps) => {
                formatter.write_str("no order explains what was read:")?;
                for Step { access, why } in steps {
                    write!(formatter, "\n    {access}\n        comes before the next one: {why}")?;
                }
                formatter.write_str("\n    and the last one comes before the first one")
            }
            Self::NoOrder => formatter.write_str("no order explains what was read"),
            Self::Torn { reader, cell } => {
                write!(
                    formatter,
                    "{reader} found a value in cell {cell} that no access of the round has written there"
                )
            }
            Self::Undecided => formatter.write_str("no order was found within the limit of tries"),
        }
    }
}

/// The largest number of nodes of a relation: the accesses, and the states at the start and at the end.
const NODES_MAX: usize = u128::BITS as usize;
const TRIES_MAX: u32 = 20_000;

/// The reason for a pair of the relation.
#[derive(Debug, Clone, Copy)]
enum Why {
    /// The rank's own order, or the start or the end of the round.
    Own,
    /// The second access has read a cell of the first one.
    Read,
    /// `reader` has read a cell of `writer` that `other` wrote as well.
    Follows { reader: usize, writer: usize, other: usize },
}

#[derive(Clone)]
struct Relation {
    /// For each node, the bits of the nodes that come after it.
    after: Vec<u128>,
    /// The pairs that were added, in order, each with its reason.
    steps: Vec<(usize, usize, Why)>,
}

/// Fields `a`, `b` and the reason: `a` must come before `b`, and the relation says that `a` comes after
/// `b`.
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

    /// The added pairs that lead from one node to another.
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

/// A round as nodes: the state at the start (node 0), the accesses, and the final read (the last node).
struct Problem<'a> {
    round: &'a Round,
    /// For each cell, the bits of the nodes that wrote it.
    writers: Vec<u128>,
    /// A reader, a writer that it has read from, and the bits of the other nodes that wrote one of the
    /// cells read from that writer.
    reads: Vec<(usize, usize, u128)>,
}

/// Judges a round. The result is [`Verdict::Undecided`] for more accesses than a relation can hold (126),
/// and after 20,000 tries.
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

    /// The accesses with their nodes. The final read is the last one.
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

    /// Adds what is known without a conclusion: the start, the end, each rank's own order, and writers
    /// before their readers.
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

    /// Adds all pairs that follow from the relation.
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

    /// Searches for an order. Tries both ways for each choice that is undecided.
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

    /// Whether the accesses, carried out in this order, read what they have read.
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
        Verdict::Circle(steps.into_iter().map(|step| self.step(step)).collect())
    }

    fn name(&self, node: usize) -> String {
        self.access(node).map_or_else(|| "the initial state of the file".to_owned(), Access::to_string)
    }

    fn step(&self, (a, b, why): (usize, usize, Why)) -> Step {
        let why = match why {
            Why::Own if a == 0 || b + 1 == self.round.accesses.len() + 2 => {
                "the round begins with its initial state and ends with the final read".to_owned()
            }
            Why::Own => "the rank made them in this order".to_owned(),
            Why::Read => {
                let cell = self.cell(b, a, None);
                format!("the next one read its value in cell {cell}")
            }
            Why::Follows { reader, writer, other } => {
                let cell = self.cell(reader, writer, Some(other));
                let [reader, writer, other] = [reader, writer, other].map(|node| self.name(node));
                format!("{reader} read the value of {writer} in cell {cell}, which {other} wrote as well")
            }
        };
        Step { access: self.name(a), why }
    }

    /// A cell that a reader has read from a writer, and that the other access, if there is one, wrote as
    /// well.
    fn cell(&self, reader: usize, writer: usize, other: Option<usize>) -> u32 {
        let runs = self.access(reader).into_iter().flat_map(|access| &access.runs);
        let mut cells = runs
            .filter(|run| self.node_of(run.writer) == Some(writer))
            .flat_map(|run| run.start..run.start + run.cells);
        let is_it = |cell: &u32| other.is_none_or(|other| self.writers[*cell as usize] >> other & 1 == 1);
        cells.find(is_it).unwrap_or(0)
    }
}

/// The nodes in an order that agrees with the relation.
fn sorted(relation: &Relation) -> Vec<usize> {
    let mut nodes: Vec<usize> = (0..relation.after.len()).collect();
    // If one node comes before another, its set of later nodes contains the other node and that node's
    // set, so it is larger.
    nodes.sort_by_key(|node| std::cmp::Reverse(relation.after[*node].count_ones()));
    nodes
}
