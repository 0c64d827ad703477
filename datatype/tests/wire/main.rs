//! The wire form: a sent type arrives, and no other bytes are accepted as a type.

#[path = "../cases/mod.rs"]
mod cases;
mod copying;
mod corpus;
mod format;
mod naive;
#[path = "../oracle/mod.rs"]
mod oracle;
mod properties;
mod questions;

/// The message with its checksum.
fn sealed(mut body: Vec<u8>) -> Vec<u8> {
    let checksum = crc32fast::hash(&body);
    body.extend(checksum.to_le_bytes());
    body
}

fn body(message: &[u8]) -> &[u8] {
    &message[..message.len() - 4]
}

/// A message that consists of these nodes.
fn nodes(bytes: &[u8]) -> Vec<u8> {
    sealed([b"CDT\x01", bytes].concat())
}
