//! Prints the rows as a table.

use std::fmt::Write;

use indicatif::HumanCount;

use super::rank::View;
use super::row::Row;

const HEAD: &str = "\
The work of one rank of many to plan a collective write, with 64 ranks on each node and a collective buffer
of 1 MiB for each rank.
Measured: the tables of the nodes, the view of one rank, its summary and the choice of the plan, and the
rank's part of the first round with descriptions for other nodes. heap is the most memory at any time;
descr is the size of the descriptions in this round.
Formulas: the bytes sent in the whole access for this rank beside the data, and for the steps of its leader;
and the messages of the leader, including those with data. ROMIO's numbers are lower bounds of what every
rank holds and sends, with one aggregator of 16 MiB on each node.

                   |                                measured                               |       formulas      |            ROMIO, formulas
view         ranks | nodes us  view us choice us round us   heap B nodes met  descr B |     sent B messages |        heap B       sent B messages
";

/// The rows, and the growth of each column from the first to the last row of a view as a power of the
/// number of ranks.
pub(super) fn of(rows: &[Row]) -> String {
    let mut text = HEAD.to_owned();
    for view in [View::Strided, View::Irregular] {
        let rows: Vec<&Row> = rows.iter().filter(|row| row.scenario.view == view).collect();
        for row in &rows {
            line(&mut text, row);
        }
        if let [first, .., last] = rows[..] {
            growth(&mut text, first, last);
        }
    }
    text
}

fn line(text: &mut String, row: &Row) {
    let (scenario, measured) = (row.scenario, &row.measured);
    let micros = |ns: u64| ns as f64 / 1000.0;
    let count = |count: u64| HumanCount(count).to_string();
    let _ = writeln!(
        text,
        "{:<10} {:>7} | {:>8.1} {:>8.1} {:>9.1} {:>8.1} {:>8} {:>9} {:>8} | {:>10} {:>8} | {:>13} {:>12} {:>8}",
        scenario.view.name(),
        count(scenario.ranks),
        micros(measured.nodes_ns),
        micros(measured.view_ns),
        micros(measured.choice_ns),
        micros(measured.round_ns),
        measured.peak_bytes,
        measured.nodes_met,
        measured.described_bytes,
        row.ours.sent_bytes,
        row.ours.messages,
        count(row.romio.memory_bytes),
        count(row.romio.sent_bytes),
        count(row.romio.messages),
    );
}

fn growth(text: &mut String, first: &Row, last: &Row) {
    let ranks = (last.scenario.ranks as f64 / first.scenario.ranks as f64).ln();
    let power = |of: fn(&Row) -> u64| {
        let (first, last) = (of(first).max(1) as f64, of(last).max(1) as f64);
        format!("P^{:.2}", (last / first).ln() / ranks)
    };
    let _ = writeln!(
        text,
        "{:<10} {:>7} | {:>8} {:>8} {:>9} {:>8} {:>8} {:>9} {:>8} | {:>10} {:>8} | {:>13} {:>12} {:>8}",
        "grows as",
        "",
        power(|row| row.measured.nodes_ns),
        power(|row| row.measured.view_ns),
        power(|row| row.measured.choice_ns),
        power(|row| row.measured.round_ns),
        power(|row| row.measured.peak_bytes),
        power(|row| row.measured.nodes_met),
        power(|row| row.measured.described_bytes),
        power(|row| row.ours.sent_bytes),
        power(|row| row.ours.messages),
        power(|row| row.romio.memory_bytes),
        power(|row| row.romio.sent_bytes),
        power(|row| row.romio.messages),
    );
}
