//! The errors of decoding a message.

use thiserror::Error;

use crate::error::TypeError;

/// Why a message is not a type. Positions are bytes from the start of the message.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum WireError {
    /// The message does not begin as the wire form of a type does.
    #[error("the message is not the wire form of a type")]
    NotAType,
    /// The message has a version that this library does not know.
    #[error("version {found} of the wire form is unknown")]
    Version {
        /// The version of the message.
        found: u8,
    },
    /// The bytes of the message changed on the way.
    #[error("the message states the checksum {expected:#010x}, but its bytes have {found:#010x}")]
    Checksum {
        /// The checksum in the message.
        expected: u32,
        /// The checksum of the bytes of the message.
        found: u32,
    },
    /// The message ends inside a node, or before the first one.
    #[error("the message ends at byte {position}, inside a node")]
    Truncated {
        /// Position at which more bytes were needed.
        position: usize,
    },
    /// The tag of a node is unknown.
    #[error("byte {position}: the tag {tag} is unknown")]
    Tag {
        /// Position at which the node begins.
        position: usize,
        /// The tag that was found.
        tag: u8,
    },
    /// A number is out of range for its purpose, or is not in its shortest form.
    #[error("byte {position}: {what}")]
    Number {
        /// Position at which the number begins.
        position: usize,
        /// The fault of the number.
        what: &'static str,
    },
    /// A list has a form or data that no list has.
    #[error("byte {position}: {what}")]
    List {
        /// Position at which the form of the list, or its data, begins.
        position: usize,
        /// The fault of the list.
        what: &'static str,
    },
    /// A reference leads to no earlier node.
    #[error("byte {position}: invalid reference: {back} nodes back, with {nodes} nodes before it")]
    Reference {
        /// Position at which the reference begins.
        position: usize,
        /// Number of nodes that the reference goes back.
        back: u64,
        /// Number of nodes before the node with the reference.
        nodes: usize,
    },
    /// A node other than the last one is not used by any later node.
    #[error("node {node} is not used by any later node")]
    Unused {
        /// The number of the node, from 0.
        node: usize,
    },
    /// The message has more nodes than any message may have.
    #[error("byte {position}: the message has more than {limit} nodes")]
    TooManyNodes {
        /// Position at which the first excess node begins.
        position: usize,
        /// The greatest number of nodes.
        limit: usize,
    },
    /// The constructor of a node refused the arguments.
    #[error("byte {position}: {source}")]
    Type {
        /// Position at which the node begins.
        position: usize,
        /// The error of the constructor.
        source: TypeError,
    },
}

pub(super) type Result<T> = std::result::Result<T, WireError>;
