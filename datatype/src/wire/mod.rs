//! Types as messages, so that a view can be sent to another node and used there.
//!
//! # Content of a message
//! A message holds the exact constructor tree, including bounds that [`Datatype::with_bounds`] forced upon
//! a node. The receiver therefore builds a type with an equal layout, equal bounds and an equal signature
//! (a translation needs the signature), and envelope and contents of the type answer as those of the
//! original.
//!
//! The canonical form could be sent instead, which would save the receiver the rewriting. There are two
//! reasons against it. First, copy programs trust the facts that canonical pieces carry (sizes, hulls,
//! touching neighbors). For pieces from a message, all facts would have to be computed again, and this
//! computation is what takes the time in rewriting a list: 10^6 entries would cost the same. Second, the
//! constructors are the one place where arguments are checked, for calls of the user and for messages
//! alike.
//!
//! Where the layout alone matters, [`Datatype::layout_to_wire`] sends the constructors of the canonical
//! form over bytes, if this message is shorter: a list of 10^6 entries that is in fact a strided row takes
//! 30 bytes.
//!
//! # Format
//! ```text
//! message     "CDT", version (1 byte), nodes, CRC-32 (IEEE) of all bytes before it, little endian
//! node        tag, arguments, references; if bit 7 of the tag is set, lower bound and extent (`with_bounds`)
//! reference   number of nodes to go back: a node follows the nodes that it uses, shared nodes occur once
//! number      7 bits per byte, lowest first, in the shortest form; signed ones as 0, -1, 1, -2, ...
//! list        see `list`: differences packed in 1, 2, 4 or 8 bytes, or as numbers, or as a bitmap
//! ```
//! The last node is the type. Every other node is used by a later one. A vector takes 6 bytes, so four
//! nested vectors with header and checksum take about 40 bytes.
//!
//! # Messages from unknown senders
//! Decoding results in a type, or in a [`WireError`] with the position of the fault. It takes time and
//! memory linear in the message: a list has at most 8 entries per byte, there are at most 2^20 nodes, and
//! nesting has the limit of the constructors. References allow a small message to stand for a huge type. No
//! function of this module and no query of a type expands a type, however: sizes, bounds and signatures are
//! arithmetic, and layouts share the parts that the tree shares. In the worst case (a struct of many small
//! irregular fields), rewriting takes up to 1,000 times the memory of the message. A program that accepts
//! messages from unknown senders must therefore limit their length.

mod decode;
mod encode;
mod error;
mod list;
mod number;
mod view;

pub use error::WireError;

use crate::error::Result;
use crate::layout::Layout;
use crate::tree::Datatype;

const MAGIC: [u8; 3] = *b"CDT";
const VERSION: u8 = 1;
const CHECKSUM_BYTES: usize = 4;
/// The greatest number of nodes in a message.
const NODES_MAX: usize = 1 << 20;
/// Bit of a tag: the bounds of the node were forced, and follow.
const BOUNDS: u8 = 0x80;

/// The kinds of nodes.
mod tag {
    pub(super) const NAMED: u8 = 0;
    pub(super) const F90_INTEGER: u8 = 1;
    pub(super) const F90_REAL: u8 = 2;
    pub(super) const F90_COMPLEX: u8 = 3;
    pub(super) const OPAQUE: u8 = 4;
    pub(super) const DUP: u8 = 5;
    pub(super) const CONTIGUOUS: u8 = 6;
    pub(super) const VECTOR: u8 = 7;
    pub(super) const HVECTOR: u8 = 8;
    pub(super) const INDEXED: u8 = 9;
    pub(super) const HINDEXED: u8 = 10;
    pub(super) const INDEXED_BLOCK: u8 = 11;
    pub(super) const HINDEXED_BLOCK: u8 = 12;
    pub(super) const STRUCT: u8 = 13;
    pub(super) const SUBARRAY: u8 = 14;
    pub(super) const DARRAY: u8 = 15;
    pub(super) const RESIZED: u8 = 16;
}

impl Datatype {
    /// The type as a message. [`Datatype::from_wire`] makes an equal type of it, on any machine.
    ///
    /// ```
    /// use capulet_datatype::{Datatype, Named};
    /// let mut datatype = Datatype::named(Named::Double);
    /// for stride in [3, 20, 300, 4000] {
    ///     datatype = Datatype::vector(2, 1, stride, &datatype)?;
    /// }
    /// let message = datatype.to_wire();
    /// assert!(message.len() < 45);
    /// assert_eq!(Datatype::from_wire(&message)?.layout(), datatype.layout());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn to_wire(&self) -> Vec<u8> {
        encode::encode(self)
    }

    /// A message of which [`Datatype::from_wire`] makes a type of bytes with the bounds of this type and an
    /// equal layout, or the result of [`Datatype::to_wire`] if that is shorter. The message serves views:
    /// the receiver moves bytes and does not ask for elements.
    ///
    /// ```
    /// use capulet_datatype::{Datatype, Named};
    /// let places: Vec<i64> = (0..100_000).map(|i| 40 * i).collect();
    /// let listed = Datatype::hindexed_block(1, &places, &Datatype::named(Named::Double))?;
    /// let message = listed.layout_to_wire();
    /// assert!(message.len() < 32);
    /// assert_eq!(Datatype::from_wire(&message)?.layout(), listed.layout());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn layout_to_wire(&self) -> Vec<u8> {
        let exact = self.to_wire();
        let Ok(canonical) = view::over_bytes(self.layout()) else { return exact };
        let shorter = Some(canonical.to_wire()).filter(|message| message.len() < exact.len());
        // Rewriting a canonical form gives the same form again. The comparison makes this function
        // independent of that property.
        shorter.filter(|_| canonical.layout() == self.layout()).unwrap_or(exact)
    }

    /// The type in a message, which may come from any sender.
    ///
    /// # Errors
    /// Any [`WireError`]: the message must be complete, have no bytes after its end, and describe a type
    /// whose size and bounds fit in 64 bits.
    pub fn from_wire(message: &[u8]) -> std::result::Result<Self, WireError> {
        decode::decode(message)
    }
}

impl Layout {
    /// A message of which [`Datatype::from_wire`] makes a type of bytes with the same runs in the same
    /// order, and the same bounds. The layout of that type is equal to this one, except in a few cases in
    /// which the same runs have another form.
    ///
    /// # Errors
    /// The errors of the constructors, if the canonical form nests deeper than they accept.
    ///
    /// ```
    /// use capulet_datatype::{Datatype, Named};
    /// let column = Datatype::vector(1000, 1, 1000, &Datatype::named(Named::Double))?;
    /// let message = column.layout().to_wire()?;
    /// assert!(message.len() < 32);
    /// assert_eq!(Datatype::from_wire(&message)?.layout(), column.layout());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn to_wire(&self) -> Result<Vec<u8>> {
        view::over_bytes(self).map(|datatype| datatype.to_wire())
    }
}
