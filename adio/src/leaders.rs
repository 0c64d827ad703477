//! Distributes the data of the node leaders to all ranks.

use capulet_comm::{Agree, Node, Rank};

use crate::error::Result;

/// Every rank gets the bytes of the leader (the first rank) of each node, in the order of the nodes. The
/// bytes of other ranks are ignored. Collective; blocks for the other ranks. Rank 0 receives from all
/// ranks and broadcasts the bytes of the leaders.
pub(crate) fn from_leaders(channel: &dyn Agree, node: &Node, own: &[u8]) -> Result<Vec<Vec<u8>>> {
    let own = if node.is_leader() { own } else { &[] };
    let mut framed = Vec::new();
    if let Some(all) = channel.gather(own)? {
        for leader in &node.leaders {
            let bytes = all.get(leader.index()).map_or(&[][..], Vec::as_slice);
            framed.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
            framed.extend_from_slice(bytes);
        }
    }
    channel.broadcast(Rank(0), &mut framed)?;
    let mut rest = framed.as_slice();
    Ok((0..node.node_count()).map(|_| next(&mut rest).unwrap_or_default().to_vec()).collect())
}

fn next<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (length, tail) = rest.split_first_chunk::<4>()?;
    let (bytes, tail) = tail.split_at_checked(u32::from_le_bytes(*length) as usize)?;
    *rest = tail;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use capulet_comm::local::LocalChannel;

    #[test]
    fn all_ranks_get_the_bytes_of_the_leaders() {
        let nodes = [[0, 2], [1, 3]];
        let leaders = vec![Rank(0), Rank(1)];
        let ranks = LocalChannel::team(4).into_iter().enumerate().map(|(rank, channel)| {
            let index = rank % 2;
            let node = Node {
                ranks: nodes[index].map(Rank).to_vec(),
                place: rank / 2,
                index,
                leaders: leaders.clone(),
                sizes: vec![2, 2],
                block_count: 4,
                blocks: nodes[index].to_vec(),
            };
            std::thread::spawn(move || {
                from_leaders(&channel, &node, &vec![7; rank]).expect("the ranks agree")
            })
        });
        for rank in ranks.collect::<Vec<_>>() {
            assert_eq!(rank.join().expect("no rank panics"), [vec![], vec![7]]);
        }
    }
}
