//! The canonical form of a layout as constructors over bytes: a type with the same layout, independent of
//! the description of the original type.

use std::collections::HashMap;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::error::Result;
use crate::layout::Layout;
use crate::named::Named;
use crate::piece::{Facts, Leaf, Piece};
use crate::tree::Datatype;
use crate::walk::Walker;

/// A type of bytes with the runs and the bounds of a layout.
///
/// # Errors
/// The errors of the constructors, if the canonical form nests deeper than they accept.
pub(super) fn over_bytes(layout: &Layout) -> Result<Datatype> {
    let byte = Datatype::named(Named::Byte);
    let whole = match layout.root() {
        Some(root) => {
            let mut builder = Builder { byte, built: HashMap::new() };
            let shape = builder.shape(root)?;
            if root.base == 0 { shape } else { Datatype::hindexed_block(1, &[root.base], &shape)? }
        }
        None => Datatype::contiguous(0, &byte)?,
    };
    whole.with_bounds(layout.lb(), layout.extent())
}

struct Builder {
    byte: Datatype,
    /// The types of leaves, by address, because leaves are shared.
    built: HashMap<usize, Datatype>,
}

impl Builder {
    /// The type of a piece whose first byte is moved to offset 0.
    fn shape(&mut self, piece: &Piece) -> Result<Datatype> {
        let leaf = self.leaf(piece)?;
        piece.dims.iter().try_fold(leaf, |inner, dim| Datatype::hvector(dim.n, 1, dim.stride, &inner))
    }

    /// The type of the leaf of a piece, without the dimensions.
    fn leaf(&mut self, piece: &Piece) -> Result<Datatype> {
        let address = match &piece.leaf {
            Leaf::Block(bytes) => return Datatype::contiguous(*bytes, &self.byte),
            Leaf::Index(index) => Arc::as_ptr(index).addr(),
            Leaf::VarIndex(index) => Arc::as_ptr(index).addr(),
            Leaf::Bitmap(bitmap) => Arc::as_ptr(bitmap).addr(),
            Leaf::Sequence(sequence) => Arc::as_ptr(sequence).addr(),
        };
        if let Some(built) = self.built.get(&address) {
            return Ok(built.clone());
        }
        let datatype = match &piece.leaf {
            Leaf::Index(index) => {
                let displacements: Vec<i64> = index.displacements.as_slice().iter().collect();
                Datatype::hindexed_block(1, &displacements, &self.shape(&index.body)?)
            }
            Leaf::Block(_) | Leaf::VarIndex(_) | Leaf::Bitmap(_) => self.runs(piece),
            Leaf::Sequence(sequence) => {
                let types =
                    sequence.pieces.iter().map(|piece| self.shape(piece)).collect::<Result<Vec<_>>>()?;
                let bases: Vec<i64> = sequence.pieces.iter().map(|piece| piece.base).collect();
                Datatype::structure(&vec![1; types.len()], &bases, &types)
            }
        }?;
        self.built.insert(address, datatype.clone());
        Ok(datatype)
    }

    /// The type of a leaf as a list of its runs.
    fn runs(&self, piece: &Piece) -> Result<Datatype> {
        let facts = Facts { size: piece.leaf_bytes(), ..piece.facts };
        let leaf = Piece { base: 0, dims: SmallVec::new(), leaf: piece.leaf.clone(), facts };
        let (mut displacements, mut lengths): (Vec<i64>, Vec<u64>) = (Vec::new(), Vec::new());
        let mut walker = Walker::new(&leaf, 0, facts.size);
        while let Some(span) = walker.next_span() {
            span.for_each(|offset, bytes| {
                if let (Some(at), Some(last)) = (displacements.last(), lengths.last_mut())
                    && *at + *last as i64 == offset
                {
                    *last += bytes;
                    return;
                }
                displacements.push(offset);
                lengths.push(bytes);
            });
        }
        Datatype::hindexed(&lengths, &displacements, &self.byte)
    }
}
