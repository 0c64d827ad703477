//! What the tests share: raw connections that speak the documented bytes, and a client's wait.

#![allow(dead_code, reason = "each test program uses a part")]

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

use capulet_word_server::{Client, Contact, Server, Wait};

/// A wait that makes no progress and gives up after a minute, so that a hang fails a test.
pub(crate) fn wait() -> Wait<'static> {
    Wait::new(&|| ()).within(Duration::from_secs(60))
}

pub(crate) fn client_of(server: &Server) -> Client {
    Client::new(server.addresses())
}

/// The secret, where the documentation of `Contact` places it.
pub(crate) fn secret_of(contact: &Contact) -> [u8; 16] {
    contact.to_bytes()[4..20].try_into().unwrap()
}

/// A valid hello.
pub(crate) fn hello(contact: &Contact) -> Vec<u8> {
    let mut bytes = b"CapWords\x01\0\0\0\0\0\0\0".to_vec();
    bytes.extend(secret_of(contact));
    bytes
}

/// A connection without a handshake. Its reads give up after 20 s.
pub(crate) fn raw(contact: &Contact) -> TcpStream {
    let port = contact.addresses()[0].port();
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
    stream.set_nodelay(true).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream
}

/// A connection that the server has admitted.
pub(crate) fn admitted(contact: &Contact) -> TcpStream {
    let mut stream = raw(contact);
    stream.write_all(&hello(contact)).unwrap();
    let mut welcome = [0; 16];
    stream.read_exact(&mut welcome).unwrap();
    assert_eq!(&welcome, b"WordsCap\x01\0\0\0\0\0\0\0");
    stream
}

/// The fixed part of a request.
pub(crate) fn request(code: u8, width: u8, put: u32, operands: [u64; 4], number: u64) -> Vec<u8> {
    let mut bytes = vec![code, width, 0, 0];
    bytes.extend(put.to_le_bytes());
    for value in operands.into_iter().chain([number]) {
        bytes.extend(value.to_le_bytes());
    }
    bytes
}

/// A reply: status, number of the request, words.
pub(crate) fn reply(stream: &mut TcpStream) -> (u8, u64, Vec<u64>) {
    let mut head = [0; 16];
    stream.read_exact(&mut head).unwrap();
    let count = u32::from_le_bytes(head[4..8].try_into().unwrap());
    let number = u64::from_le_bytes(head[8..].try_into().unwrap());
    let words = (0..count).map(|_| {
        let mut word = [0; 8];
        stream.read_exact(&mut word).unwrap();
        u64::from_le_bytes(word)
    });
    (head[0], number, words.collect())
}

/// The bytes until the server closes the connection. A reset is a close.
pub(crate) fn until_closed(stream: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    match stream.read_to_end(&mut bytes) {
        Ok(_) => {}
        Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{error}"),
    }
    bytes
}
