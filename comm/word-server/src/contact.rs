//! The contact of a server: what a client needs to find the server and to be admitted by it.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use crate::error::{Error, Result};

/// The number of bytes of a secret.
pub(crate) const SECRET_BYTES: usize = 16;
const VERSION: u8 = 1;
/// Version, number of addresses, port, secret.
const HEAD_BYTES: usize = 1 + 1 + 2 + SECRET_BYTES;
const ENTRY_BYTES: usize = 1 + 16;

/// The addresses, the port and the secret of a server. Whoever has the contact may change the words, so it
/// travels through MPI only, and `Debug` omits the secret.
///
/// Encoding, version 1, integers little-endian:
/// ```text
/// version: u8 = 1 | addresses: u8, 1 to 16 | port: u16, not 0 | secret: 16 bytes |
/// per address: 4, 4 octets | 6, 16 octets
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Contact {
    addresses: Vec<IpAddr>,
    port: u16,
    secret: [u8; SECRET_BYTES],
}

impl Contact {
    /// The largest number of addresses of a contact.
    pub const MAX_ADDRESSES: usize = 16;
    /// The largest number of bytes of an encoded contact.
    pub const MAX_BYTES: usize = HEAD_BYTES + Self::MAX_ADDRESSES * ENTRY_BYTES;

    /// A contact. Addresses after the first [`Contact::MAX_ADDRESSES`] are dropped.
    pub(crate) fn new(mut addresses: Vec<IpAddr>, port: u16, secret: [u8; SECRET_BYTES]) -> Self {
        addresses.truncate(Self::MAX_ADDRESSES);
        Self { addresses, port, secret }
    }

    pub(crate) fn ips(&self) -> &[IpAddr] {
        &self.addresses
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn secret(&self) -> &[u8; SECRET_BYTES] {
        &self.secret
    }

    /// The addresses with the port, in the order of the server.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.addresses.iter().map(|ip| SocketAddr::new(*ip, self.port)).collect()
    }

    /// The encoded contact, at most [`Contact::MAX_BYTES`] bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![VERSION, self.addresses.len() as u8];
        bytes.extend(self.port.to_le_bytes());
        bytes.extend(self.secret);
        for address in &self.addresses {
            match address {
                IpAddr::V4(v4) => {
                    bytes.push(4);
                    bytes.extend(v4.octets());
                }
                IpAddr::V6(v6) => {
                    bytes.push(6);
                    bytes.extend(v6.octets());
                }
            }
        }
        bytes
    }

    /// The contact that [`Contact::to_bytes`] has encoded.
    ///
    /// # Errors
    /// [`Error::Contact`] if the bytes are not exactly one contact of this version.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let malformed = |detail| Error::Contact { detail };
        let Some((head, mut rest)) = bytes.split_first_chunk::<HEAD_BYTES>() else {
            return Err(malformed("too few bytes"));
        };
        let [version, count, low, high, secret @ ..] = *head;
        if version != VERSION {
            return Err(malformed("another version"));
        }
        if !(1..=Self::MAX_ADDRESSES).contains(&usize::from(count)) {
            return Err(malformed("the number of addresses"));
        }
        let port = u16::from_le_bytes([low, high]);
        if port == 0 {
            return Err(malformed("the port is zero"));
        }
        let mut addresses = Vec::with_capacity(count.into());
        for _ in 0..count {
            let (address, after) = split_address(rest).ok_or(malformed("an address"))?;
            addresses.push(address);
            rest = after;
        }
        if !rest.is_empty() {
            return Err(malformed("bytes after the last address"));
        }
        Ok(Self { addresses, port, secret })
    }
}

/// The first address of `bytes`, and the bytes after it.
fn split_address(bytes: &[u8]) -> Option<(IpAddr, &[u8])> {
    let (kind, bytes) = bytes.split_first()?;
    match kind {
        4 => bytes.split_first_chunk::<4>().map(|(octets, rest)| ((*octets).into(), rest)),
        6 => bytes.split_first_chunk::<16>().map(|(octets, rest)| ((*octets).into(), rest)),
        _ => None,
    }
}

impl fmt::Debug for Contact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Contact").field("addresses", &self.addresses()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn contacts() -> impl Strategy<Value = Contact> {
        let addresses = prop::collection::vec(any::<IpAddr>(), 1..=Contact::MAX_ADDRESSES);
        (addresses, 1..=u16::MAX, any::<[u8; SECRET_BYTES]>())
            .prop_map(|(addresses, port, secret)| Contact::new(addresses, port, secret))
    }

    proptest! {
        #[test]
        fn contacts_survive_the_encoding(contact in contacts()) {
            let bytes = contact.to_bytes();
            prop_assert!(bytes.len() <= Contact::MAX_BYTES);
            prop_assert_eq!(Contact::from_bytes(&bytes).unwrap(), contact);
        }

        #[test]
        fn truncated_and_extended_contacts_are_refused(contact in contacts(), cut in 0_usize..300) {
            let mut bytes = contact.to_bytes();
            prop_assert!(Contact::from_bytes(&bytes[..cut % bytes.len()]).is_err());
            bytes.push(4);
            prop_assert!(Contact::from_bytes(&bytes).is_err());
        }

        #[test]
        fn any_bytes_are_refused_or_encode_to_themselves(bytes in prop::collection::vec(any::<u8>(), 0..320)) {
            if let Ok(contact) = Contact::from_bytes(&bytes) {
                prop_assert_eq!(contact.to_bytes(), bytes);
            }
        }
    }

    #[test]
    fn each_malformed_field_is_refused() {
        let good = Contact::new(vec!["10.0.0.1".parse().unwrap()], 7, [3; SECRET_BYTES]).to_bytes();
        assert!(Contact::from_bytes(&good).is_ok());
        for (at, byte) in [(0, 2), (0, 0), (1, 0), (1, 2), (1, 17), (2, 0), (HEAD_BYTES, 5), (HEAD_BYTES, 6)]
        {
            let mut bytes = good.clone();
            bytes[at] = byte;
            assert!(matches!(Contact::from_bytes(&bytes), Err(Error::Contact { .. })), "byte {at} = {byte}");
        }
    }

    #[test]
    fn debug_omits_the_secret() {
        let contact = Contact::new(vec!["10.0.0.1".parse().unwrap()], 7, [211; SECRET_BYTES]);
        assert!(!format!("{contact:?}").contains("211"));
    }
}
