//! What is counted and not measured: messages, and what ROMIO takes.
//!
//! ROMIO's two-phase (`ad_write_coll.c`) flattens the view to a list of 16 bytes a piece, keeps a second one of the access,
//! gathers 16 bytes of every rank, sends the offsets and lengths of its pieces to their aggregators, 16 bytes a piece, and
//! exchanges a count of 8 bytes with every rank: once before the rounds and again in each. Here these are lower bounds: one
//! aggregator a node with 16 MiB, its default; collectives by their depth, and in bytes by what is for others; and nothing for
//! the lists that aggregators hold of others.

use super::rank::{Measured, Scene};

/// Its buffer, without hints.
const ROMIO_WINDOW_BYTES: u64 = 16 << 20;
/// Offset and length.
const ROMIO_PIECE_BYTES: u64 = 16;
/// First and last offset of a rank, and a count.
const ROMIO_RANK_BYTES: u64 = 24;
/// Bytes of the values of an agreement: seven of 8.
const AGREEMENT_BYTES: u64 = 56;
/// Bytes of the values of a step between nodes, with their head.
const STEP_BYTES: u64 = 36;

/// Bytes of a receipt.
const RECEIPT_BYTES: u64 = 13;

/// What a rank takes in an access, beside the data.
#[derive(Debug, Clone, Copy)]
pub(super) struct Formulas {
    /// Held at once, beside the buffers.
    pub(super) memory_bytes: u64,
    /// Sent for it beside the data in the whole access.
    pub(super) sent_bytes: u64,
    /// Sent in the whole access, those with data too.
    pub(super) messages: u64,
}

fn depth(count: u64) -> u64 {
    u64::from(count.next_power_of_two().ilog2())
}

/// A leader of a node, which sends most: in two agreements, and in a reduction for each step (survey, rounds, end), at most as
/// many messages as the tree is deep and one more; in each round a request for each node that its ranks meet, and a receipt for
/// each that comes. Of the bytes that it sends for its ranks those of one rank. Rounds are taken to be like the first, which
/// was measured.
pub(super) fn ours(scene: Scene, measured: &Measured) -> Formulas {
    let agreements = 2 * (depth(scene.ranks) + 1);
    let reductions = (1 + measured.rounds + 1) * (depth(scene.nodes()) + 1);
    let parcels = measured.rounds * measured.nodes_met;
    Formulas {
        memory_bytes: measured.peak_bytes,
        sent_bytes: measured.rounds * measured.described_bytes
            + agreements * AGREEMENT_BYTES
            + reductions * STEP_BYTES
            + parcels * RECEIPT_BYTES,
        messages: agreements + reductions + 2 * parcels,
    }
}

/// Every rank: two gatherings, a count for everybody before the rounds and in each, the lists, and in each round data for each aggregator.
pub(super) fn romio(scene: Scene) -> Formulas {
    let (pieces, aggregators) = (scene.pieces_of_rank(), scene.nodes());
    let lists = ROMIO_PIECE_BYTES * pieces;
    let rounds = scene.file_bytes().div_ceil(ROMIO_WINDOW_BYTES * aggregators);
    // Pieces all over the file go to all aggregators, and no message is without one.
    let lists_sent = aggregators.min(pieces);
    let data_sent = (rounds * aggregators).min(pieces);
    Formulas {
        memory_bytes: 2 * lists + ROMIO_RANK_BYTES * scene.ranks,
        sent_bytes: lists + (1 + rounds) * 8 * (scene.ranks - 1),
        messages: (2 + 1 + rounds) * depth(scene.ranks) + lists_sent + data_sent,
    }
}
