//! What is counted and not measured: messages, and what ROMIO takes.
//!
//! ROMIO's two-phase (`ad_write_coll.c`) flattens the view to a list of 16 bytes a piece, keeps a second one of the access,
//! gathers 16 bytes of every rank, sends the offsets and lengths of its pieces to their aggregators, 16 bytes a piece, and exchanges
//! a count of 8 bytes with every rank: once before the rounds and again in each. Here these are lower bounds: one aggregator a node, its
//! default; collectives by their depth, and in bytes by what is for others; and nothing for the lists that aggregators hold of others.

use super::rank::{Measured, Scene};

/// Offset and length.
const ROMIO_PIECE_BYTES: u64 = 16;
/// First and last offset of a rank, and a count.
const ROMIO_RANK_BYTES: u64 = 24;
/// Bytes of the values of an agreement: seven of 8.
const AGREEMENT_BYTES: u64 = 56;
/// Bytes of the values of a step between nodes, with their head.
const STEP_BYTES: u64 = 36;

/// What a rank takes in an access, beside the data.
#[derive(Debug, Clone, Copy)]
pub(super) struct Formulas {
    /// Held at once, beside the buffers.
    pub(super) memory_bytes: u64,
    /// Sent to say where data go, up to the end of the first round.
    pub(super) sent_bytes: u64,
    /// Sent for that.
    pub(super) messages: u64,
}

fn depth(count: u64) -> u64 {
    u64::from(count.next_power_of_two().ilog2())
}

/// The leader of a node, which sends most: two agreements of at most as many messages as the tree is deep, down and up; a survey and a step, of
/// one reduction each; a request for each node that its ranks meet, and a receipt for each that comes.
pub(super) fn ours(scene: Scene, measured: &Measured) -> Formulas {
    let agreements = 2 * (depth(scene.ranks) + 1);
    let steps = 2 * (depth(scene.nodes()) + 1);
    let parcels = 2 * measured.nodes_met;
    Formulas {
        memory_bytes: measured.peak_bytes,
        sent_bytes: measured.described_bytes + agreements * AGREEMENT_BYTES + steps * STEP_BYTES,
        messages: agreements + steps + parcels,
    }
}

/// Every rank: two gatherings, a count for everybody before the rounds and in the first one, and the lists.
pub(super) fn romio(scene: Scene) -> Formulas {
    let pieces = scene.pieces_of_rank();
    let lists = ROMIO_PIECE_BYTES * pieces;
    // Pieces all over the file go to all aggregators.
    let lists_sent = scene.nodes().min(pieces);
    Formulas {
        memory_bytes: 2 * lists + ROMIO_RANK_BYTES * scene.ranks,
        sent_bytes: lists + 2 * 8 * (scene.ranks - 1),
        messages: 4 * depth(scene.ranks) + lists_sent,
    }
}
