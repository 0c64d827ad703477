//! The graph of the modules of one crate, read from its sources, and the circles in it. The crate serves
//! tests only. It must not know MPI or any other crate of Capulet: it reads their files.
//!
//! A module depends on another module if its code names an item of the other module: by a `use`, or by a
//! path such as `crate::a::f()`. Methods that are called without a name of their module do not count.
//! The search follows a name through re-exports to the module that defines the item. So a re-export itself
//! is no dependency, and an import through the crate root is a dependency on the defining module.
//! Code under `#[cfg(test)]` does not count. A module is a file: an inline module is part of its file.
//!
//! ```
//! use std::collections::HashMap;
//! use std::path::Path;
//!
//! use capulet_graph::Graph;
//!
//! let files = HashMap::from([
//!     ("src/lib.rs", "mod point; mod shape; pub use point::Point;"),
//!     ("src/point.rs", "use crate::shape::Shape; pub struct Point;"),
//!     ("src/shape.rs", "use crate::Point; pub struct Shape;"),
//! ]);
//! let read = |file: &Path| files.get(file.to_str()?).map(|text| (*text).to_owned());
//! let graph = Graph::of(Path::new("src/lib.rs"), &read)?;
//! let circles = graph.circles();
//! assert_eq!(circles.len(), 1);
//! assert_eq!(graph.names(&circles[0]), ["point", "shape"]);
//! # Ok::<(), capulet_graph::Error>(())
//! ```
//!
//! | module | content |
//! |---|---|
//! | [`source`] | the modules of a crate: their items, their imports and the paths in their code |
//! | [`resolve`] | the search for the module that defines the item of a path |
//! | [`circles`] | the circles of a graph, and the imports that close them |

pub mod circles;
pub mod resolve;
pub mod source;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::source::Module;

/// Why the sources of a crate give no graph.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file of a module is missing or cannot be read.
    #[error("no source file for the module `{module}`, which {} declares", parent.display())]
    Missing {
        /// Name of the module.
        module: String,
        /// File that declares the module.
        parent: PathBuf,
    },
    /// The file is not Rust.
    #[error("{}:{line}: {message}", file.display())]
    Syntax {
        /// The file.
        file: PathBuf,
        /// Line in the file, from 1.
        line: usize,
        /// Message of the parser.
        message: String,
    },
}

/// A dependency between two modules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edge {
    /// Index of the module whose code names the item.
    pub from: usize,
    /// Index of the module that defines the item.
    pub to: usize,
    /// Lines of the file of `from` that name an item of `to`, in ascending order.
    pub lines: Vec<usize>,
}

/// The modules of a crate and their dependencies.
#[derive(Debug)]
pub struct Graph {
    /// Path of each module from the crate root, such as `copy::kernel`, and its file.
    pub modules: Vec<(String, PathBuf)>,
    /// All dependencies between different modules, at most one for a pair.
    pub edges: Vec<Edge>,
}

impl Graph {
    /// Reads the graph of the crate whose root module is the file `root`.
    ///
    /// # Errors
    /// If the file of a module is missing or is not Rust.
    pub fn read(root: &Path) -> Result<Self, Error> {
        Self::of(root, &|file| std::fs::read_to_string(file).ok())
    }

    /// Like [`Graph::read`], with the text of each file from `read`.
    ///
    /// # Errors
    /// If `read` has no text for the file of a module, or the text is not Rust.
    pub fn of(root: &Path, read: &dyn Fn(&Path) -> Option<String>) -> Result<Self, Error> {
        let modules = source::modules(root, read)?;
        let edges = edges(&modules);
        Ok(Self { modules: modules.into_iter().map(|module| (module.name, module.file)).collect(), edges })
    }

    /// The names of the modules of a circle.
    pub fn names(&self, circle: &[usize]) -> Vec<&str> {
        circle.iter().map(|&module| self.modules[module].0.as_str()).collect()
    }
}

/// The dependencies between files.
fn edges(modules: &[Module]) -> Vec<Edge> {
    let mut lines: BTreeMap<(usize, usize), Vec<usize>> = BTreeMap::new();
    for (index, module) in modules.iter().enumerate() {
        for mention in &module.mentions {
            for target in resolve::mention(modules, index, mention) {
                let ends = (module.in_file, modules[target].in_file);
                if ends.0 != ends.1 {
                    lines.entry(ends).or_default().push(mention.line);
                }
            }
        }
    }
    let edge = |((from, to), mut lines): ((usize, usize), Vec<usize>)| {
        lines.sort_unstable();
        lines.dedup();
        Edge { from, to, lines }
    };
    lines.into_iter().map(edge).collect()
}
