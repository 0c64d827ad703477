//! Sockets and their options.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, SockaddrStorage, bind, connect, listen, setsockopt, socket,
    sockopt,
};
use std::os::fd::AsRawFd;

use crate::error::errno_of;

/// How long a peer that does not answer the probes of TCP counts as alive.
pub(crate) const PEER_TIME: Duration = Duration::from_secs(10);
/// Probes of an idle connection: after 2 s without traffic one each 2 s, so the fourth one fails after
/// [`PEER_TIME`].
const PROBE_SECONDS: u32 = 2;
const PROBES: u32 = 4;

/// A nonblocking listener on all interfaces, on a port that the kernel chooses, and whether IPv6 leads to
/// it.
pub(crate) fn listener() -> Result<(TcpListener, bool), Errno> {
    match listen_on(SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0))) {
        Ok(listener) => Ok((listener, true)),
        // The host has no IPv6.
        Err(_) => Ok((listen_on(SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)))?, false)),
    }
}

fn listen_on(address: SocketAddr) -> Result<TcpListener, Errno> {
    let fd = socket(family(address), SockType::Stream, FLAGS, None)?;
    if address.is_ipv6() {
        // Serves IPv4 too, whatever the default of the host is.
        setsockopt(&fd, sockopt::Ipv6V6Only, &false)?;
    }
    bind(fd.as_raw_fd(), &SockaddrStorage::from(address))?;
    listen(&fd, Backlog::MAXALLOWABLE)?;
    Ok(fd.into())
}

const FLAGS: SockFlag = SockFlag::SOCK_CLOEXEC.union(SockFlag::SOCK_NONBLOCK);

fn family(address: SocketAddr) -> AddressFamily {
    if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 }
}

/// A nonblocking socket that begins to connect to `address`. It is writable when it is connected.
pub(crate) fn begin_connect(address: SocketAddr) -> Result<TcpStream, Errno> {
    let stream = TcpStream::from(socket(family(address), SockType::Stream, FLAGS, None)?);
    configure(&stream)?;
    // Data that a dead host does not acknowledge ends the connection too; the probes cover only an idle one.
    setsockopt(&stream, sockopt::TcpUserTimeout, &(PEER_TIME.as_millis() as u32))?;
    match connect(stream.as_raw_fd(), &SockaddrStorage::from(address)) {
        Ok(()) | Err(Errno::EINPROGRESS | Errno::EINTR) => Ok(stream),
        Err(errno) => Err(errno),
    }
}

/// Sets the options of an accepted socket. `TCP_USER_TIMEOUT` is not among them, because it would end the
/// connection of a client that is stopped while a long reply is on its way.
pub(crate) fn configure_served(stream: &TcpStream) -> Result<(), Errno> {
    stream.set_nonblocking(true).map_err(|error| errno_of(&error))?;
    configure(stream)
}

fn configure(stream: &TcpStream) -> Result<(), Errno> {
    setsockopt(stream, sockopt::TcpNoDelay, &true)?;
    setsockopt(stream, sockopt::KeepAlive, &true)?;
    setsockopt(stream, sockopt::TcpKeepIdle, &PROBE_SECONDS)?;
    setsockopt(stream, sockopt::TcpKeepInterval, &PROBE_SECONDS)?;
    setsockopt(stream, sockopt::TcpKeepCount, &PROBES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::socket::getsockopt;

    #[test]
    fn sockets_detect_a_dead_peer_within_the_limit() {
        let (listener, _) = listener().unwrap();
        let port = listener.local_addr().unwrap().port();
        let stream = begin_connect(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).unwrap();
        assert!(getsockopt(&stream, sockopt::TcpNoDelay).unwrap());
        assert!(getsockopt(&stream, sockopt::KeepAlive).unwrap());
        let idle = getsockopt(&stream, sockopt::TcpKeepIdle).unwrap();
        let interval = getsockopt(&stream, sockopt::TcpKeepInterval).unwrap();
        let probes = getsockopt(&stream, sockopt::TcpKeepCount).unwrap();
        assert_eq!(u64::from(idle + interval * probes), PEER_TIME.as_secs());
        assert_eq!(getsockopt(&stream, sockopt::TcpUserTimeout).unwrap(), 10_000);
    }

    #[test]
    fn a_listener_serves_both_families() {
        let (listener, has_v6) = listener().unwrap();
        let port = listener.local_addr().unwrap().port();
        TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
        if has_v6 {
            TcpStream::connect((Ipv6Addr::LOCALHOST, port)).unwrap();
        }
    }
}
