//! The circles of a graph: its strongly connected components of more than one module.

use std::collections::HashSet;

use crate::{Edge, Graph};

impl Graph {
    /// The circles, the largest first. Each lists the indices of its modules in ascending order.
    pub fn circles(&self) -> Vec<Vec<usize>> {
        let mut next = vec![Vec::new(); self.modules.len()];
        for edge in &self.edges {
            next[edge.from].push(edge.to);
        }
        let mut search = Tarjan {
            next: &next,
            numbers: vec![None; next.len()],
            stack: Vec::new(),
            found: Vec::new(),
            count: 0,
        };
        for module in 0..next.len() {
            if search.numbers[module].is_none() {
                search.visit(module);
            }
        }
        let mut circles = search.found;
        circles.retain(|circle| circle.len() > 1);
        for circle in &mut circles {
            circle.sort_unstable();
        }
        circles.sort_by_key(|circle| (std::cmp::Reverse(circle.len()), circle[0]));
        circles
    }

    /// The dependencies within a circle: first the ones that close it, then the others. Without the first
    /// ones there is no circle, and each of them alone makes one again. They are few, but another choice
    /// may have fewer (P. Eades, X. Lin, W. F. Smyth, "A fast and effective heuristic for the feedback arc
    /// set problem", 1993). A dependency with few lines is more likely to be among them.
    pub fn closing(&self, circle: &[usize]) -> (Vec<&Edge>, Vec<&Edge>) {
        let mut left: HashSet<usize> = circle.iter().copied().collect();
        let inner: Vec<&Edge> =
            self.edges.iter().filter(|edge| left.contains(&edge.from) && left.contains(&edge.to)).collect();
        // Modules in an order in which few dependencies point back: users before what they use.
        let (mut users, mut used) = (Vec::new(), Vec::new());
        while !left.is_empty() {
            let degrees = |&module: &usize| {
                let among = |edge: &&&Edge| left.contains(&edge.from) && left.contains(&edge.to);
                let out = inner.iter().filter(among).filter(|edge| edge.from == module).count();
                let into = inner.iter().filter(among).filter(|edge| edge.to == module).count();
                (module, out, into)
            };
            let mut all: Vec<(usize, usize, usize)> = left.iter().map(degrees).collect();
            all.sort_unstable();
            let sink = all.iter().find(|(_, out, _)| *out == 0);
            let source = all.iter().find(|(_, _, into)| *into == 0);
            let best = all.iter().max_by_key(|(_, out, into)| out.cast_signed() - into.cast_signed());
            let taken = match (sink, source, best) {
                (Some((sink, ..)), ..) => {
                    used.push(*sink);
                    *sink
                }
                (_, Some((module, ..)), _) | (_, _, Some((module, ..))) => {
                    users.push(*module);
                    *module
                }
                (None, None, None) => break,
            };
            left.remove(&taken);
        }
        let order: Vec<usize> = users.into_iter().chain(used.into_iter().rev()).collect();
        let place = |module: usize| order.iter().position(|&other| other == module);
        let (mut back, mut others): (Vec<&Edge>, Vec<&Edge>) =
            inner.into_iter().partition(|edge| place(edge.from) > place(edge.to));
        back.sort_by_key(|edge| std::cmp::Reverse(edge.lines.len()));
        let mut closing = Vec::new();
        for edge in back {
            let part = if is_reached(edge.from, edge.to, &others) { &mut closing } else { &mut others };
            part.push(edge);
        }
        closing.sort_by_key(|edge| edge.from);
        others.sort_by_key(|edge| edge.from);
        (closing, others)
    }
}

/// True if the dependencies `edges` lead from `start` to `end`.
fn is_reached(end: usize, start: usize, edges: &[&Edge]) -> bool {
    let (mut seen, mut left) = (HashSet::from([start]), vec![start]);
    while let Some(module) = left.pop() {
        let next = edges.iter().filter(|edge| edge.from == module).map(|edge| edge.to);
        left.extend(next.filter(|next| seen.insert(*next)));
    }
    seen.contains(&end)
}

/// R. Tarjan, "Depth-first search and linear graph algorithms", 1972.
struct Tarjan<'a> {
    next: &'a [Vec<usize>],
    /// The number of each module in the order of the visits, and the lowest number that it reaches.
    numbers: Vec<Option<(usize, usize)>>,
    stack: Vec<usize>,
    found: Vec<Vec<usize>>,
    count: usize,
}

impl Tarjan<'_> {
    /// Visits a module for the first time, and returns the lowest number that it reaches.
    fn visit(&mut self, module: usize) -> usize {
        let number = self.count;
        self.count += 1;
        let mut lowest = number;
        self.numbers[module] = Some((number, lowest));
        self.stack.push(module);
        for &other in &self.next[module] {
            match self.numbers[other] {
                None => lowest = lowest.min(self.visit(other)),
                Some((seen, _)) if self.stack.contains(&other) => lowest = lowest.min(seen),
                Some(_) => {}
            }
        }
        if lowest == number {
            let start = self.stack.iter().rposition(|&other| other == module).unwrap_or(0);
            self.found.push(self.stack.split_off(start));
        }
        lowest
    }
}
