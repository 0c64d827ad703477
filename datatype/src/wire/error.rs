//! What can be wrong with a message.

use thiserror::Error;

use crate::error::TypeError;

/// Why a message is not a type. Positions are bytes from the start of the message.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum WireError {
    /// The message does not begin as the wire form of a type does.
    #[error("the message is not a type")]
    NotAType,
    /// The message is of a version that this library does not know.
    #[error("version {found} of the wire form is unknown")]
    Version {
        /// The version of the message.
        found: u8,
    },
    /// The bytes are not those that were sent.
    #[error("the checksum is {found:#010x} where {expected:#010x} was sent")]
    Checksum {
        /// The checksum in the message.
        expected: u32,
        /// That of its bytes.
        found: u32,
    },
    /// The message ends inside of a node, or before the first one.
    #[error("the message ends at byte {position}, inside of a node")]
    Truncated {
        /// Where more bytes were needed.
        position: usize,
    },
    /// No such kind of node.
    #[error("byte {position}: no node has the tag {tag}")]
    Tag {
        /// Where the node begins.
        position: usize,
        /// What was found there.
        tag: u8,
    },
    /// A number that is too large for its purpose, or that is longer than it need be.
    #[error("byte {position}: {what}")]
    Number {
        /// Where the number begins.
        position: usize,
        /// What is wrong with it.
        what: &'static str,
    },
    /// A list in a form that it cannot have.
    #[error("byte {position}: {what}")]
    List {
        /// Where the form of the list, or its data, begins.
        position: usize,
        /// What is wrong with it.
        what: &'static str,
    },
    /// A reference to a node that does not come before.
    #[error("byte {position}: a node refers to the {back}th node before it, of {nodes}")]
    Reference {
        /// Where the reference begins.
        position: usize,
        /// How many nodes it goes back.
        back: u64,
        /// How many nodes there are before this one.
        nodes: usize,
    },
    /// A node that is no part of the last one.
    #[error("no node uses node {node}")]
    Unused {
        /// The number of the node, from 0.
        node: usize,
    },
    /// More nodes than any message may have.
    #[error("byte {position}: more than {limit} nodes")]
    TooManyNodes {
        /// Where the node too many begins.
        position: usize,
        /// The most that are accepted.
        limit: usize,
    },
    /// The arguments of a node are none that its constructor accepts.
    #[error("byte {position}: {source}")]
    Type {
        /// Where the node begins.
        position: usize,
        /// What the constructor says.
        source: TypeError,
    },
}

pub(super) type Result<T> = std::result::Result<T, WireError>;
