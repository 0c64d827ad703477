//! The wire form: what is sent arrives, and nothing else is taken for a type.

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

/// The message with a checksum that fits.
fn sealed(mut body: Vec<u8>) -> Vec<u8> {
    let checksum = crc32fast::hash(&body);
    body.extend(checksum.to_le_bytes());
    body
}

fn body(message: &[u8]) -> &[u8] {
    &message[..message.len() - 4]
}

/// A message with these nodes.
fn nodes(bytes: &[u8]) -> Vec<u8> {
    sealed([b"CDT\x01", bytes].concat())
}
