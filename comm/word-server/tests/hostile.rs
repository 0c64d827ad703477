//! Peers that break the rules: they get nothing, and delay no client.

mod support;

use std::io::{Read, Write};
use std::net::Shutdown;
use std::thread;
use std::time::{Duration, Instant};

use capulet_word_server::{Client, Contact, Error, Server};
use proptest::prelude::*;
use support::{admitted, client_of, hello, raw, reply, request, until_closed, wait};

const WORDS: usize = 16;
const LOAD: u8 = 1;
const EXCHANGE: u8 = 5;
const CLAIM: u8 = 6;
const DONE: u8 = 0;
const OUT_OF_RANGE: u8 = 1;
const INVALID: u8 = 2;

fn assert_serves(server: &Server) {
    let before = server.load::<u64>(0).unwrap();
    assert_eq!(client_of(server).add(0, 1_u64, wait()).unwrap(), before);
    assert_eq!(server.load::<u64>(0).unwrap(), before + 1);
}

#[test]
fn each_wrong_byte_of_a_hello_closes_the_connection_without_an_answer() {
    let server = Server::start(WORDS).unwrap();
    let good = hello(&server.addresses());
    for at in 0..good.len() {
        let mut bytes = good.clone();
        bytes[at] ^= 1;
        let mut stream = raw(&server.addresses());
        stream.write_all(&bytes).unwrap();
        assert_eq!(until_closed(&mut stream), b"", "byte {at}");
    }
    assert_serves(&server);
}

#[test]
fn a_client_with_a_wrong_secret_reaches_no_server() {
    let server = Server::start(WORDS).unwrap();
    let mut bytes = server.addresses().to_bytes();
    bytes[19] ^= 0x80;
    let client = Client::new(Contact::from_bytes(&bytes).unwrap());
    let error = client.load::<u64>(0, wait()).unwrap_err();
    let Error::Unreachable { attempts } = &error else { panic!("{error}") };
    assert_eq!(attempts.len(), server.addresses().addresses().len());
    assert_eq!((client.requests(), server.requests()), (0, 0));
}

#[test]
fn secrets_differ_between_servers() {
    let contacts = [(); 4].map(|()| Server::start(1).unwrap().addresses());
    for (at, contact) in contacts.iter().enumerate() {
        let secret = support::secret_of(contact);
        assert_ne!(secret, [0; 16]);
        assert!(contacts[..at].iter().all(|other| support::secret_of(other) != secret));
    }
}

#[test]
fn invalid_requests_get_an_error_and_the_connection_stays() {
    let server = Server::start(WORDS).unwrap();
    let mut stream = admitted(&server.addresses());
    let many = WORDS as u64;
    let zeros = [0; 4];
    let cases = [
        (request(LOAD, 8, 0, [many, 0, 0, 0], 0), OUT_OF_RANGE),
        (request(LOAD, 8, 0, [u64::MAX, 0, 0, 0], 1), OUT_OF_RANGE),
        (request(LOAD, 5, 0, zeros, 2), INVALID),
        (request(4, 8, 0, zeros, 3), INVALID),
        (request(0, 8, 0, zeros, 4), INVALID),
        (request(7, 8, 0, zeros, 5), INVALID),
        (request(EXCHANGE, 4, 0, zeros, 6), INVALID),
        (request(EXCHANGE, 8, 0, [0, u64::MAX, 0, 0], 7), OUT_OF_RANGE),
        (request(EXCHANGE, 8, 0, [u64::MAX, 2, 0, 0], 8), OUT_OF_RANGE),
        (request(EXCHANGE, 8, 0, [0, 1, u64::MAX, 0], 9), OUT_OF_RANGE),
        (request(CLAIM, 8, 0, [1, many, 0, 1], 10), OUT_OF_RANGE),
        (request(CLAIM, 8, 0, [0, 4, 4, 1], 11), OUT_OF_RANGE),
    ];
    for (number, (bytes, status)) in cases.into_iter().enumerate() {
        stream.write_all(&bytes).unwrap();
        assert_eq!(reply(&mut stream), (status, number as u64, vec![]));
    }
    // Stored words that the server discards: beyond its words, and of a request that stores none.
    for (code, status, count) in
        [(EXCHANGE, OUT_OF_RANGE, 100_000), (LOAD, INVALID, 3), (EXCHANGE, OUT_OF_RANGE, 2)]
    {
        stream.write_all(&request(code, 8, count, [0, 1, 0, 0], 20)).unwrap();
        stream.write_all(&vec![7; count as usize * 8]).unwrap();
        assert_eq!(reply(&mut stream), (status, 20, vec![]));
    }
    stream.write_all(&request(LOAD, 8, 0, [3, 0, 0, 0], 21)).unwrap();
    assert_eq!(reply(&mut stream), (DONE, 21, vec![0]));
    assert_eq!(server.exchange(0, 0, &[], WORDS).unwrap(), [0; WORDS]);
}

#[test]
fn a_client_reports_words_that_the_server_does_not_have() {
    let server = Server::start(WORDS).unwrap();
    let client = client_of(&server);
    let out = |error: Error| assert!(matches!(error, Error::OutOfRange { .. }), "{error}");
    out(client.load::<u32>(WORDS, wait()).unwrap_err());
    out(client.exchange(0, 0, &[1; WORDS + 1], WORDS + 1, wait()).unwrap_err());
    out(client.claim_if_none(1, 0, 1, WORDS, wait()).unwrap_err());
    assert_eq!(client.requests(), 3);
    // These are inconsistent in themselves, so they are not sent.
    out(client.exchange(0, 3, &[1; 2], 4, wait()).unwrap_err());
    out(client.claim_if_none(0, 4, 1, 4, wait()).unwrap_err());
    assert_eq!((client.requests(), server.requests()), (3, 3));
    assert_eq!(client.exchange(0, 0, &[], WORDS, wait()).unwrap(), [0; WORDS]);
}

#[test]
fn claimed_lengths_take_no_memory() {
    let server = Server::start(WORDS).unwrap();
    let before = resident_bytes();
    // A request of 32 GiB, of which 64 MiB arrive.
    let mut stream = admitted(&server.addresses());
    stream.write_all(&request(EXCHANGE, 8, u32::MAX, [0, 1, 0, 0], 0)).unwrap();
    let piece = vec![1; 1 << 20];
    for _ in 0..64 {
        stream.write_all(&piece).unwrap();
    }
    assert_serves(&server);
    let grown = resident_bytes().saturating_sub(before);
    assert!(grown < 32 << 20, "{grown} bytes");
}

fn resident_bytes() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    pages.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

#[test]
fn a_stalled_request_delays_no_other_client() {
    let server = Server::start(WORDS).unwrap();
    let contact = server.addresses();
    let mut half = admitted(&contact);
    half.write_all(&request(LOAD, 8, 0, [0; 4], 0)[..24]).unwrap();
    let mut words = admitted(&contact);
    words.write_all(&request(EXCHANGE, 8, 2, [0, 2, 0, 0], 1)).unwrap();
    words.write_all(&[5; 12]).unwrap();
    let mut handshake = raw(&contact);
    handshake.write_all(&hello(&contact)[..20]).unwrap();

    let client = client_of(&server);
    let start = Instant::now();
    for round in 0..200 {
        assert_eq!(client.add(3, 1_u64, wait()).unwrap(), round);
    }
    assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());

    half.write_all(&request(LOAD, 8, 0, [0; 4], 0)[24..]).unwrap();
    assert_eq!(reply(&mut half), (DONE, 0, vec![0]));
    words.write_all(&[5; 4]).unwrap();
    assert_eq!(reply(&mut words), (DONE, 1, vec![u64::from_le_bytes([5; 8]); 2]));
    handshake.write_all(&hello(&contact)[20..]).unwrap();
    handshake.read_exact(&mut [0; 16]).unwrap();
}

#[test]
fn a_client_that_reads_no_reply_delays_no_other_client() {
    const MANY: usize = 100_000;
    let server = Server::start(MANY).unwrap();
    let mut deaf = admitted(&server.addresses());
    for number in 0..50 {
        deaf.write_all(&request(EXCHANGE, 8, 0, [0, MANY as u64, 0, 0], number)).unwrap();
    }
    let client = client_of(&server);
    let start = Instant::now();
    for round in 0..200 {
        assert_eq!(client.add(3, 1_u64, wait()).unwrap(), round);
    }
    assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
    assert!(server.requests() < 250, "the replies fill the socket");
    for number in 0..50 {
        let (status, echoed, words) = reply(&mut deaf);
        assert_eq!((status, echoed, words.len()), (DONE, number, MANY));
    }
}

#[test]
fn silent_connections_keep_no_client_out() {
    let server = Server::start(WORDS).unwrap();
    let silent: Vec<_> = (0..200).map(|_| raw(&server.addresses())).collect();
    let start = Instant::now();
    assert_serves(&server);
    assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
    drop(silent);
    assert_serves(&server);
}

#[test]
fn two_hundred_clients_are_served() {
    let server = Server::start(WORDS).unwrap();
    let clients: Vec<_> = (0..200).map(|_| client_of(&server)).collect();
    thread::scope(|scope| {
        for part in clients.chunks(50) {
            scope.spawn(move || {
                for client in part.iter().chain(part) {
                    client.add(5, 1_u64, wait()).unwrap();
                }
            });
        }
    });
    assert_eq!(server.load::<u64>(5).unwrap(), 400);
}

#[test]
fn a_handshake_has_a_time_limit() {
    let server = Server::start(WORDS).unwrap();
    let start = Instant::now();
    let mut stream = raw(&server.addresses());
    stream.write_all(&hello(&server.addresses())[..31]).unwrap();
    assert_eq!(until_closed(&mut stream), b"");
    let took = start.elapsed();
    assert!(took > Duration::from_secs(4) && took < Duration::from_secs(9), "{took:?}");
}

#[test]
fn requests_sent_ahead_are_answered_in_order() {
    let server = Server::start(WORDS).unwrap();
    let mut stream = admitted(&server.addresses());
    let all: Vec<u8> = (0..1000).flat_map(|number| request(3, 8, 0, [2, 1, 0, 0], number)).collect();
    stream.write_all(&all).unwrap();
    for number in 0..1000 {
        assert_eq!(reply(&mut stream), (DONE, number, vec![number]));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn random_bytes_before_the_handshake_get_nothing(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let server = Server::start(WORDS).unwrap();
        let mut stream = raw(&server.addresses());
        // The server may have closed the connection before all bytes are written.
        let _ = stream.write_all(&bytes);
        let _ = stream.shutdown(Shutdown::Write);
        prop_assert_eq!(until_closed(&mut stream), b"");
        prop_assert_eq!(server.requests(), 0);
        assert_serves(&server);
    }

    #[test]
    fn a_truncated_hello_gets_nothing(length in 0_usize..32) {
        let server = Server::start(WORDS).unwrap();
        let mut stream = raw(&server.addresses());
        stream.write_all(&hello(&server.addresses())[..length]).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        prop_assert_eq!(until_closed(&mut stream), b"");
        assert_serves(&server);
    }

    /// Mostly requests that are nearly valid, so that their operands are looked at.
    #[test]
    fn random_requests_do_not_stop_the_server(
        heads in prop::collection::vec(
            (0_u8..8, prop_oneof![Just(4_u8), Just(8), any::<u8>()], 0_u32..40,
             prop::array::uniform4(prop_oneof![0_u64..20, any::<u64>()])), 1..10),
        tail in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        let server = Server::start(WORDS).unwrap();
        let mut stream = admitted(&server.addresses());
        for (number, (code, width, put, operands)) in heads.into_iter().enumerate() {
            stream.write_all(&request(code, width, put, operands, number as u64)).unwrap();
            stream.write_all(&vec![9; put as usize * 8]).unwrap();
            let (status, echoed, words) = reply(&mut stream);
            prop_assert_eq!(echoed, number as u64);
            prop_assert!(status == DONE || (status <= INVALID && words.is_empty()));
            prop_assert!(words.len() <= WORDS);
        }
        stream.write_all(&tail).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        until_closed(&mut stream);
        server.swap(0, 0_u64).unwrap();
        assert_serves(&server);
    }
}
