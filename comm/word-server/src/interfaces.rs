//! The addresses of this host, and the order in which a client tries the addresses of another host.

use std::net::IpAddr;

use nix::ifaddrs::getifaddrs;
use nix::net::if_::InterfaceFlags;
use nix::sys::socket::SockaddrStorage;

use crate::error::{Error, Result};

/// An address of an interface that is up, and the mask of its subnet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Interface {
    pub(crate) address: IpAddr,
    mask: Option<IpAddr>,
}

/// The addresses of the interfaces that are up, without link-local addresses of IPv6, which need the name of
/// an interface to be used. Sorted by [`distance`].
pub(crate) fn interfaces() -> Result<Vec<Interface>> {
    let all = getifaddrs().map_err(|errno| Error::System { action: "list the network interfaces", errno })?;
    let mut usable: Vec<Interface> = all
        .filter(|entry| entry.flags.contains(InterfaceFlags::IFF_UP))
        .filter_map(|entry| {
            let address = ip_of(entry.address.as_ref()?)?;
            Some(Interface { address, mask: entry.netmask.as_ref().and_then(ip_of) })
        })
        .filter(|interface| !is_link_local_v6(interface.address))
        .collect();
    usable.sort_by_key(|interface| distance(interface.address));
    Ok(usable)
}

/// How unlikely it is that `address` leads to its host from another host: 0 in general; 1 for link-local
/// addresses of IPv4, which management controllers use, with the same address on each host; 2 for loopback.
fn distance(address: IpAddr) -> u8 {
    match address {
        _ if address.is_loopback() => 2,
        IpAddr::V4(v4) if v4.is_link_local() => 1,
        _ => 0,
    }
}

/// Sorts the addresses of another process: those in a subnet of `own` come first. The own addresses of this
/// host come after other addresses of their subnets, because a bridge may have the same address on each
/// host. Equal addresses keep their order.
pub(crate) fn sort_by_reach(addresses: &mut [IpAddr], own: &[Interface]) {
    addresses.sort_by_key(|address| {
        let is_near = own.iter().any(|interface| interface.reaches(*address));
        let is_own = own.iter().any(|interface| interface.address == *address);
        (distance(*address), !is_near, is_own)
    });
}

impl Interface {
    fn reaches(&self, other: IpAddr) -> bool {
        match (self.address, self.mask, other) {
            (IpAddr::V4(own), Some(IpAddr::V4(mask)), IpAddr::V4(other)) => {
                (own.to_bits() ^ other.to_bits()) & mask.to_bits() == 0
            }
            (IpAddr::V6(own), Some(IpAddr::V6(mask)), IpAddr::V6(other)) => {
                (own.to_bits() ^ other.to_bits()) & mask.to_bits() == 0
            }
            _ => false,
        }
    }
}

fn ip_of(storage: &SockaddrStorage) -> Option<IpAddr> {
    let v4 = storage.as_sockaddr_in().map(|v4| IpAddr::V4(v4.ip()));
    v4.or_else(|| storage.as_sockaddr_in6().map(|v6| IpAddr::V6(v6.ip())))
}

fn is_link_local_v6(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(v6) if v6.is_unicast_link_local())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn addresses_of_a_shared_subnet_come_first_and_loopback_last() {
        let own = [("10.1.0.7", "255.255.0.0"), ("172.17.0.1", "255.255.0.0"), ("127.0.0.1", "255.0.0.0")]
            .map(|(address, mask)| Interface { address: ip(address), mask: Some(ip(mask)) });
        let texts = ["127.0.0.1", "192.168.3.4", "172.17.0.1", "169.254.0.17", "10.1.200.9", "fd00::3"];
        let mut addresses = texts.map(ip);
        sort_by_reach(&mut addresses, &own);
        let sorted = ["10.1.200.9", "172.17.0.1", "192.168.3.4", "fd00::3", "169.254.0.17", "127.0.0.1"];
        assert_eq!(addresses, sorted.map(ip));
    }

    #[test]
    fn a_mask_of_ipv6_decides_on_its_bits() {
        let own = Interface { address: ip("fd00:1::1"), mask: Some(ip("ffff:ffff::")) };
        assert!(own.reaches(ip("fd00:1:7::2")));
        assert!(!own.reaches(ip("fd00:2::1")));
        assert!(!own.reaches(ip("10.0.0.1")));
    }

    #[test]
    fn this_host_lists_no_link_local_ipv6_and_loopback_last() {
        let own = interfaces().unwrap();
        assert!(!own.is_empty());
        assert!(own.iter().all(|interface| !is_link_local_v6(interface.address)));
        assert!(own.is_sorted_by_key(|interface| interface.address.is_loopback()));
    }
}
