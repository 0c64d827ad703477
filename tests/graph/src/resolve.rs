//! The search for the module that defines the item of a path.

use std::collections::HashSet;

use crate::source::{Binding, Kind, Mention, Module};

/// The end of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Target {
    /// A module.
    Module(usize),
    /// An item that the module with this index defines.
    Item(usize),
}

/// The modules on which a mention in `module` makes it depend.
pub fn mention(modules: &[Module], module: usize, mention: &Mention) -> Vec<usize> {
    let mut search = Search { modules, passed: HashSet::new() };
    let mut targets = search.path(module, &mention.path);
    if targets.is_empty() && mention.kind == Kind::Macro {
        // A macro without a path is visible in later modules.
        let has = |module: &Module| {
            module.scope.get(&mention.path[0]).is_some_and(|all| all.contains(&Binding::Macro))
        };
        targets = (0..modules.len()).filter(|&index| has(&modules[index])).map(Target::Item).collect();
    }
    let depends = |target: &Target| match *target {
        Target::Item(defining) => Some(defining),
        // An import of a module imports the items that the code names through this module. Each of these
        // names is a mention of its own.
        Target::Module(glob) => (mention.kind == Kind::Glob).then_some(glob),
    };
    targets.iter().filter_map(depends).collect()
}

struct Search<'a> {
    modules: &'a [Module],
    /// Names that the search passed through, because an import can lead back to itself.
    passed: HashSet<(usize, String)>,
}

impl Search<'_> {
    /// The targets of a path in the code of `module`. A path into another crate has none.
    fn path(&mut self, module: usize, path: &[String]) -> Vec<Target> {
        let mut targets = Vec::new();
        for (position, segment) in path.iter().enumerate() {
            targets = match (position, segment.as_str()) {
                (0, "crate") => vec![Target::Module(0)],
                (0, "self") => vec![Target::Module(module)],
                (0, "super") => vec![Target::Module(self.modules[module].parent)],
                (0, name) => self.name(module, name),
                (_, "super") => {
                    self.each(&targets, |search, at| vec![Target::Module(search.modules[at].parent)])
                }
                (_, name) => self.each(&targets, |search, at| search.name(at, name)),
            };
        }
        targets
    }

    /// The targets after one more segment of a path that leads to `targets`. A segment after an item names
    /// a part of the item: a variant or an associated function.
    fn each(&mut self, targets: &[Target], next: impl Fn(&mut Self, usize) -> Vec<Target>) -> Vec<Target> {
        let any_module = targets.iter().any(|target| matches!(target, Target::Module(_)));
        let step = |target: &Target| match *target {
            Target::Module(module) => next(self, module),
            Target::Item(_) if any_module => Vec::new(),
            Target::Item(module) => vec![Target::Item(module)],
        };
        targets.iter().flat_map(step).collect()
    }

    /// The targets of a name in the scope of `module`.
    fn name(&mut self, module: usize, name: &str) -> Vec<Target> {
        if !self.passed.insert((module, name.to_owned())) {
            return Vec::new();
        }
        let modules = self.modules;
        let mut targets = Vec::new();
        for binding in modules[module].scope.get(name).into_iter().flatten() {
            match binding {
                Binding::Module(child) => targets.push(Target::Module(*child)),
                Binding::Item | Binding::Macro => targets.push(Target::Item(module)),
                Binding::Import(path) => targets.extend(self.path(module, path)),
            }
        }
        if targets.is_empty() {
            for glob in &modules[module].globs {
                for target in self.path(module, glob) {
                    if let Target::Module(of) = target {
                        targets.extend(self.name(of, name));
                    }
                }
            }
        }
        self.passed.remove(&(module, name.to_owned()));
        targets
    }
}
