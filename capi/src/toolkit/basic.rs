//! Initialization and printing of types.

use std::ffi::c_int;
use std::fmt::Write as _;
use std::io::Write as _;

use capulet_comm::MpiType;
use capulet_datatype::{Combiner, Datatype, Lengths};

use crate::abi::{MPI_Datatype, SUCCESS, export_as};
use crate::failure::Failure;
use crate::frame::returning;
use crate::toolkit::arguments::initialized;

export_as! {
    ["MPIT_Type_init"]
    /// Describes a type and attaches the description to the type. Local.
    fn Type_init(datatype: MPI_Datatype) -> c_int {
        returning("MPIT_Type_init", || prepare(datatype).map(|_| ()))
    }
}

export_as! {
    ["MPIT_Type_is_initialized"]
    /// Whether a type has a description: by `MPIT_Type_init`, or without it. Local.
    fn Type_is_initialized(datatype: MPI_Datatype) -> c_int {
        let outcome = returning("MPIT_Type_is_initialized", || initialized(datatype).map(|_| ()));
        c_int::from(outcome == SUCCESS)
    }
}

export_as! {
    ["MPIT_Type_debug"]
    /// Prints a type on standard error. Local.
    fn Type_debug(datatype: MPI_Datatype) -> c_int {
        returning("MPIT_Type_debug", || {
            let text = text_of(&prepare(datatype)?);
            // A write error is ignored, because a broken pipe must not end the program.
            let _ = std::io::stderr().write_all(text.as_bytes());
            Ok(())
        })
    }
}

/// The description of a type, with its canonical layout computed.
fn prepare(datatype: MPI_Datatype) -> Result<Datatype, Failure> {
    // SAFETY: `# Safety` of `MpiType::datatype_of`: capulet_types.h requires that the caller passes a valid
    // datatype or MPI_DATATYPE_NULL.
    let described = unsafe { MpiType::datatype_of(datatype) }?;
    described.layout();
    Ok(described)
}

/// The maximum depth of the printed constructors, and the maximum number of printed entries of a list.
const DEPTH_MAX: usize = 16;
const ENTRIES_MAX: usize = 8;

fn text_of(datatype: &Datatype) -> String {
    let layout = datatype.layout();
    let mut text = format!(
        "capulet: a datatype of {} bytes, lb {}, extent {}, true lb {}, true ub {}\n\
         capulet: {} regions, {}{}, described in {} bytes\n",
        datatype.size(),
        datatype.lb(),
        datatype.extent(),
        datatype.true_lb(),
        datatype.true_ub(),
        layout.block_count(),
        if layout.is_dense() { "contiguous" } else { "not contiguous" },
        if layout.is_monotone() { ", in the order of their addresses" } else { "" },
        layout.heap_bytes(),
    );
    print_node(datatype, 0, &mut text);
    text
}

/// Appends the constructor of a type to `text`, and then those of its parts.
fn print_node(datatype: &Datatype, depth: usize, text: &mut String) {
    let (what, olds) = constructor_of(datatype.combiner());
    // Writing to a string cannot fail.
    let _ = writeln!(text, "capulet: {:1$}{what}", "", 2 * depth);
    if depth == DEPTH_MAX {
        return;
    }
    for old in olds.iter().take(ENTRIES_MAX) {
        print_node(old, depth + 1, text);
    }
    if olds.len() > ENTRIES_MAX {
        let _ = writeln!(text, "capulet: {:1$}...", "", 2 * depth + 2);
    }
}

/// The text of a constructor with its arguments, and the old types of the constructor.
fn constructor_of(combiner: &Combiner) -> (String, &[Datatype]) {
    use std::slice::from_ref as one;
    match combiner {
        Combiner::Named(named) => (named.name().to_owned(), &[]),
        Combiner::Dup { old } => ("dup".to_owned(), one(old)),
        Combiner::Contiguous { count, old } => (format!("contiguous: {count}"), one(old)),
        Combiner::Vector { count, blocklength, stride, old } => {
            (format!("vector: {count} of {blocklength}, stride {stride}"), one(old))
        }
        Combiner::Hvector { count, blocklength, stride_bytes, old } => {
            (format!("hvector: {count} of {blocklength}, stride {stride_bytes} bytes"), one(old))
        }
        Combiner::Indexed { blocklengths, displacements, old } => {
            (format!("indexed: {} at {}", lengths(blocklengths), list(displacements)), one(old))
        }
        Combiner::Hindexed { blocklengths, displacements_bytes, old } => {
            (format!("hindexed: {} at bytes {}", lengths(blocklengths), list(displacements_bytes)), one(old))
        }
        Combiner::IndexedBlock { blocklength, displacements, old } => {
            (format!("indexed block: {blocklength} each at {}", list(displacements)), one(old))
        }
        Combiner::HindexedBlock { blocklength, displacements_bytes, old } => {
            (format!("hindexed block: {blocklength} each at bytes {}", list(displacements_bytes)), one(old))
        }
        Combiner::Struct { blocklengths, displacements_bytes, types } => {
            (format!("struct: {} at bytes {}", list(blocklengths), list(displacements_bytes)), types)
        }
        Combiner::Subarray { sizes, subsizes, starts, order, old } => {
            let (sizes, parts, starts) = (list(sizes), list(subsizes), list(starts));
            (format!("subarray: {parts} of {sizes} from {starts}, order {order:?}"), one(old))
        }
        Combiner::Darray { rank, gsizes, distributions, psizes, order, old } => {
            let (sizes, kinds, grid) = (list(gsizes), list(distributions), list(psizes));
            (format!("darray: rank {rank} of {grid}, {sizes} distributed {kinds}, order {order:?}"), one(old))
        }
        Combiner::Resized { lb, extent, old } => (format!("resized: lb {lb}, extent {extent}"), one(old)),
        other => (format!("{other:?}"), &[]),
    }
}

/// The text of the first entries of a list.
fn list<T: std::fmt::Debug>(entries: &[T]) -> String {
    shown(&entries[..entries.len().min(ENTRIES_MAX)], entries.len())
}

fn lengths(entries: &Lengths) -> String {
    shown(&entries.iter().take(ENTRIES_MAX).collect::<Vec<_>>(), entries.len())
}

fn shown<T: std::fmt::Debug>(first: &[T], n: usize) -> String {
    match n - first.len() {
        0 => format!("{first:?}"),
        more => format!("{first:?} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use capulet_datatype::Named;

    #[test]
    fn text_names_every_constructor_and_cuts_long_lists() {
        let float = Datatype::named(Named::Float);
        let displacements: Vec<i64> = (0..100).map(|at| at * at).collect();
        let indexed = Datatype::indexed_block(1, &displacements, &float).expect("valid");
        let text = text_of(&Datatype::contiguous(3, &indexed).expect("valid"));
        for part in
            ["1200 bytes", "contiguous: 3", "indexed block: 1 each at [0, 1, 4", "92 more", "MPI_FLOAT"]
        {
            assert!(text.contains(part), "{part:?} is missing in {text}");
        }
    }
}
