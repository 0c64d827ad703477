//! The errors of this crate.

use std::net::SocketAddr;
use std::time::Duration;

use nix::errno::Errno;

/// The result of this crate's functions.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of a server or of a client. A client whose connection broke returns a copy of the first error
/// from each later call.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A system call of this process failed, and no peer is involved.
    #[error("cannot {action}: {errno}")]
    System {
        /// What failed, as a verb with its object.
        action: &'static str,
        /// The error of the system call.
        errno: Errno,
    },
    /// The host has no address that another process could use.
    #[error("no network interface of this host is up with an address")]
    NoAddress,
    /// A request reaches words that the server does not have, or is inconsistent in itself. No word was
    /// changed. The connection stays usable.
    #[error("{operation} outside of the words: {detail}")]
    OutOfRange {
        /// The operation.
        operation: &'static str,
        /// Which condition the arguments violate, with their values.
        detail: String,
    },
    /// A system call on the connection to a server failed.
    #[error("cannot {action} the word server at {address}: {errno}")]
    Connection {
        /// What failed, as a verb with its preposition.
        action: &'static str,
        /// The address of the server.
        address: SocketAddr,
        /// The error of the system call.
        errno: Errno,
    },
    /// The server closed the connection. During the handshake, the process at the address is not the
    /// expected server.
    #[error("the word server at {address} closed the connection: {action}")]
    Closed {
        /// The step in which the client found this out.
        action: &'static str,
        /// The address of the server.
        address: SocketAddr,
    },
    /// The peer sent bytes that are no valid answer.
    #[error("the process at {address} does not answer like a word server: {detail}")]
    Protocol {
        /// The address of the peer.
        address: SocketAddr,
        /// What is wrong with the answer.
        detail: &'static str,
    },
    /// The time limit of the call has passed, or the limit of one attempt to connect.
    #[error("no answer within {limit:?}: {action}{}", at(*.address))]
    TimedOut {
        /// The step that took too long.
        action: &'static str,
        /// The address of the server, if the client had chosen one.
        address: Option<SocketAddr>,
        /// The limit.
        limit: Duration,
    },
    /// No address of the contact led to the server. No operation was sent; a later call tries again.
    #[error("cannot reach the word server: {}", join(.attempts))]
    Unreachable {
        /// The error of each address, in the order of the attempts.
        attempts: Vec<Error>,
    },
    /// The bytes of a contact are malformed.
    #[error("malformed contact of a word server: {detail}")]
    Contact {
        /// What is wrong with the bytes.
        detail: &'static str,
    },
    /// A message is no valid request, or no valid reply to its request. No word was changed.
    #[error("a malformed message about words: {detail}")]
    Message {
        /// What is wrong with the message.
        detail: &'static str,
    },
    /// The function `progress` of a call on a client called the same client.
    #[error("a call on a word client from the progress function of another call on it")]
    Nested,
    /// An earlier call on the client ended by a panic of its function `progress`.
    #[error("an earlier call on this word client panicked while its request was under way")]
    Abandoned,
}

fn at(address: Option<SocketAddr>) -> String {
    address.map_or_else(String::new, |address| format!(" (word server at {address})"))
}

fn join(attempts: &[Error]) -> String {
    attempts.iter().map(Error::to_string).collect::<Vec<_>>().join("; ")
}

/// The errno of an error of the standard library. `EIO` if the error has none.
pub(crate) fn errno_of(error: &std::io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::EIO, Errno::from_raw)
}
