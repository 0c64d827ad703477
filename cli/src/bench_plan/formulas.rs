//! Counts that are not measured: the messages, and the costs of ROMIO.
//!
//! ROMIO's two-phase (`ad_write_coll.c`) flattens the view to a list with 16 bytes for each piece and
//! keeps a second list of the access. Each rank gathers 16 bytes from every rank, sends the offsets and
//! lengths of its pieces to their aggregators (16 bytes for each piece), and exchanges a count of 8 bytes
//! with every rank, once before the rounds and again in each round. The numbers here are lower bounds:
//!
//! * each node has one aggregator with a buffer of 16 MiB, the default;
//! * a collective counts the messages of its depth, and the bytes that are for other ranks;
//! * the lists that aggregators hold for other ranks count nothing.

use super::rank::{Measured, Scenario};

/// ROMIO's collective buffer without hints.
const ROMIO_BUFFER_BYTES: u64 = 16 << 20;
/// Offset and length of a piece.
const ROMIO_PIECE_BYTES: u64 = 16;
/// First and last offset of a rank, and one count.
const ROMIO_RANK_BYTES: u64 = 24;
/// Bytes of the values of one agreement: seven values of 8 bytes.
const AGREEMENT_BYTES: u64 = 56;
/// Bytes of the values of one step between nodes, with their header.
const STEP_BYTES: u64 = 36;

/// Bytes of one receipt.
const RECEIPT_BYTES: u64 = 13;

/// Costs of one rank in an access, beside the data.
#[derive(Debug, Clone, Copy)]
pub(super) struct Formulas {
    /// Most memory at any time, without the collective buffers.
    pub(super) memory_bytes: u64,
    /// Bytes sent for the rank in the whole access, beside the data.
    pub(super) sent_bytes: u64,
    /// Messages sent in the whole access, including those with data.
    pub(super) messages: u64,
}

fn depth(count: u64) -> u64 {
    u64::from(count.next_power_of_two().ilog2())
}

/// Formulas for the leader of a node, the rank that sends most.
///
/// In each of two agreements, and in one leader reduction for each step (survey, rounds, end), the leader
/// sends at most one message more than the tree is deep. In each round the leader sends one request to
/// each node that its ranks meet, and one receipt for each request that arrives. Of the bytes that the
/// leader sends for the ranks of its node, only those of one rank count. All rounds are assumed to equal
/// the first, which was measured.
pub(super) fn ours(scenario: Scenario, measured: &Measured) -> Formulas {
    let agreements = 2 * (depth(scenario.ranks) + 1);
    let reductions = (1 + measured.rounds + 1) * (depth(scenario.nodes()) + 1);
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

/// Formulas for every rank: two collectives that gather, one exchange of counts with all ranks before the
/// rounds and one in each round, the lists, and in each round the data for each aggregator.
pub(super) fn romio(scenario: Scenario) -> Formulas {
    let (pieces, aggregators) = (scenario.pieces_of_rank(), scenario.nodes());
    let lists = ROMIO_PIECE_BYTES * pieces;
    let rounds = scenario.file_bytes().div_ceil(ROMIO_BUFFER_BYTES * aggregators);
    // A rank whose pieces lie all over the file sends to every aggregator, but no message is without a
    // piece.
    let lists_sent = aggregators.min(pieces);
    let data_sent = (rounds * aggregators).min(pieces);
    Formulas {
        memory_bytes: 2 * lists + ROMIO_RANK_BYTES * scenario.ranks,
        sent_bytes: lists + (1 + rounds) * 8 * (scenario.ranks - 1),
        messages: (2 + 1 + rounds) * depth(scenario.ranks) + lists_sent + data_sent,
    }
}
