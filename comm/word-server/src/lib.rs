//! Words of a process that other processes change atomically over TCP, without the help of the program:
//! one thread of the owner serves them. For locks and counters between nodes where the MPI library has no
//! windows, or where an operation on a window waits until its target calls MPI. The crate knows no MPI and no
//! files, and does not know the purpose of a word. The caller carries a [`Contact`] from the server to its
//! clients.
//!
//! ```
//! use capulet_word_server::{Client, Contact, Server, Wait};
//!
//! let server = Server::start(8)?;
//! // These bytes travel to the other processes, by MPI.
//! let bytes = server.addresses().to_bytes();
//!
//! let client = Client::new(Contact::from_bytes(&bytes)?);
//! let progress = || (); // drives MPI while the client waits
//! let wait = Wait::new(&progress);
//! assert_eq!(client.add(3, 5_u64, wait)?, 0);
//! assert_eq!(server.add(3, 1_u64)?, 5);
//! assert_eq!(client.exchange(2, 0, &[9], 2, wait)?, [9, 6]);
//! assert_eq!((client.requests(), server.requests()), (2, 2));
//! # Ok::<(), capulet_word_server::Error>(())
//! ```
//!
//! # Cost
//! T operations of a client take T round trips, T messages to the server and T messages back, plus 2 round
//! trips before the first one (TCP and the handshake). A request has 48 + 8 S bytes for S stored words, a
//! reply 16 + 8 F bytes for F fetched words. An operation makes 3 system calls on each side if
//! its request and its reply arrive in one piece, and a server makes one more to receive stored words. An
//! operation of the owner makes none. [`Client::requests`] and [`Server::requests`] count the requests. For W
//! words and C clients, the server needs 8 W bytes for the words and at most 16 W + 64 bytes for each client
//! with a request under way.
//!
//! # What is guaranteed
//! * Each operation is atomic with respect to all other operations on the same server, including operations
//!   of the owner. Operations of one thread take effect in the order of the thread.
//! * An operation takes effect at most once. No request is sent again.
//! * A process without the secret reads and changes no word, and delays no client for long: at most 128
//!   connections wait for their handshake, each for at most 5 s, and the oldest one gives way after 200 ms.
//!   TCP does not hide the secret or the words from a process that can read the network's traffic.
//! * A client never waits for a dead server: TCP notices a dead process at once, and a dead host in about 10
//!   s. It waits without limit for a stopped process, unless [`Wait::within`] has set a limit. If the request
//!   is too long for the buffers of the sockets, TCP ends the connection to a stopped process after 10 s.
//!
//! # Modules
//! | module | purpose |
//! |---|---|
//! | `words` | the words, and the operations under one mutex |
//! | `wire` | the bytes of requests and replies |
//! | `operation` | requests and replies as messages of the caller, for callers without TCP |
//! | `server` | the public server: start, operations of the owner, end |
//! | `serve` | the loop of the thread: accepts, serves, ends |
//! | `session` | one connection of the server: handshake, request, reply |
//! | `client` | the public client: turns of threads, broken state |
//! | `link` | one connection of a client: attempts to connect, handshake, request, reply |
//! | `pace` | waits of a client, with calls of the progress function and a limit |
//! | `contact` | addresses, port and secret as bytes |
//! | `interfaces` | the addresses of the host, and their order |
//! | `socket` | sockets and their options |
//! | `error` | the errors |

#![forbid(unsafe_code)]

mod client;
mod contact;
mod error;
mod interfaces;
mod link;
mod operation;
mod pace;
mod serve;
mod server;
mod session;
mod socket;
mod wire;
mod words;

pub use client::Client;
pub use contact::Contact;
pub use error::{Error, Result};
pub use operation::Operation;
pub use pace::Wait;
pub use server::{Server, THREAD_NAME};
pub use words::{Word, Words};
