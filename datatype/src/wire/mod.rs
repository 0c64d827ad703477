//! Types as messages, so that a view can be sent to another node and used there.
//!
//! # What is sent
//! The exact constructor tree, bounds that were forced upon it included. What the receiver builds from it has therefore an
//! equal layout, equal bounds and an equal signature (which a translation needs), and answers to envelope and contents as the
//! original does.
//!
//! The canonical form could be sent instead, to save the receiver the rewriting. It is not, for two reasons. First, copy
//! programs trust what canonical pieces say about themselves (sizes, hulls, which neighbors touch); of pieces from a message
//! all of that must be computed again, which is what takes the time in rewriting a list: 10^6 entries would cost the same.
//! Second, the constructors are the one place where arguments are checked, for the user's calls and for messages alike.
//!
//! Where the layout alone matters, [`Datatype::layout_to_wire`] sends the constructors of the canonical form, over bytes, if that is
//! shorter: a list of 10^6 entries that is a row in truth takes 30 bytes.
//!
//! # Format
//! ```text
//! message     "CDT", version (1 byte), nodes, CRC-32 (IEEE) of all that, little endian
//! node        tag, arguments, references; lowest bound and extent if the tag has bit 7: those of `with_bounds`
//! reference   how many nodes to go back: nodes stand behind what they are made of, and shared ones stand there once
//! number      7 bits a byte, lowest first, in the shortest form; signed ones as 0, -1, 1, -2, ...
//! list        see `list`: differences packed in 1, 2, 4 or 8 bytes, or as numbers, or as a bitmap
//! ```
//! The last node is the type; every other one is used by a later one. A vector takes 6 bytes, so four of them, one in the other,
//! with header and checksum about 40.
//!
//! # Messages from anyone
//! Decoding ends in a type or in a [`WireError`] with the place of what is wrong. It takes time and memory linear in the
//! message: a list has at most 8 entries a byte, there are at most 2^20 nodes, and nesting has the limit of the
//! constructors. References make a small message stand for a huge type, but nothing here or in what a type can be asked
//! writes a type out: sizes, bounds and signatures are arithmetic, and layouts share what the tree shares. Rewriting
//! may take up to 1,000 times the memory of the message in the worst case (a struct of many small irregular fields), so
//! who takes messages from strangers limits their length.

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
/// The most nodes that a message may have.
const NODES_MAX: usize = 1 << 20;
/// In a tag: bounds were forced upon the node, and follow.
const BOUNDS: u8 = 0x80;

/// What a node is.
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
    /// The type as a message that [`Datatype::from_wire`] makes an equal type of, on whatever machine.
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

    /// A message of which [`Datatype::from_wire`] makes a type of bytes that lies as this one, with its bounds and an equal
    /// layout; or [`Datatype::to_wire`], if that is shorter. For views: the receiver moves bytes, and asks for no elements.
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
        // Rewriting what has been rewritten gives the same. Nobody has to rely on it here.
        shorter.filter(|_| canonical.layout() == self.layout()).unwrap_or(exact)
    }

    /// The type in a message, which may come from anyone.
    ///
    /// # Errors
    /// Any [`WireError`]: the message must be complete, have nothing behind its end, and describe a type whose size and
    /// bounds fit in 64 bits.
    pub fn from_wire(message: &[u8]) -> std::result::Result<Self, WireError> {
        decode::decode(message)
    }
}

impl Layout {
    /// A message of which [`Datatype::from_wire`] makes a type of bytes with the same runs in the same order, and the same
    /// bounds. Its layout is equal to this one in all but a few cases, where the same runs are written in another form.
    ///
    /// # Errors
    /// As the constructors, if the canonical form nests deeper than they accept.
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
