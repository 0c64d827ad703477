//! Prints rows as a table for people.

use comfy_table::presets::ASCII_MARKDOWN;
use comfy_table::{CellAlignment, Table};

use super::merge::Row;

const HEADER: [&str; 14] = [
    "mpi",
    "storage",
    "ranks",
    "suite",
    "case",
    "op",
    "file",
    "unit",
    "ours",
    "peer",
    "best peer",
    "x peer",
    "of limit",
    "remarks",
];
const NUMBERS: [usize; 5] = [2, 8, 9, 11, 12];

/// The table. `x peer` tells how many times faster Capulet is than the faster peer. `of limit` tells
/// which part of the speed of the system's own contiguous calls Capulet reaches.
pub fn table(rows: &[Row]) -> String {
    let mut table = Table::new();
    table.load_preset(ASCII_MARKDOWN).set_header(HEADER);
    for row in rows {
        table.add_row(cells(row));
    }
    for at in NUMBERS {
        if let Some(column) = table.column_mut(at) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.to_string()
}

/// Whether the row shows the time of one operation. Rows with many operations or without payload do;
/// others show the rate.
fn is_about_time(row: &Row) -> bool {
    row.operations > 1 || row.bytes == 0
}

fn figure(row: &Row, seconds: Option<f64>) -> String {
    let Some(seconds) = seconds else { return "-".to_owned() };
    if is_about_time(row) {
        format!("{:.1}", 1e6 * seconds / row.operations.max(1) as f64)
    } else {
        format!("{:.0}", row.bytes as f64 / seconds / 1e6)
    }
}

fn cells(row: &Row) -> [String; 14] {
    let number = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.2}"));
    [
        row.mpi.clone(),
        row.storage.clone(),
        row.ranks.to_string(),
        row.head.suite.clone(),
        row.head.case.clone(),
        row.head.op.clone(),
        row.head.state.clone(),
        if is_about_time(row) { "us/op" } else { "MB/s" }.to_owned(),
        figure(row, row.seconds),
        figure(row, row.best_peer().and_then(|peer| peer.seconds)),
        row.peer.clone().unwrap_or_else(|| "-".to_owned()),
        number(row.ratio),
        number(row.limit_share),
        remarks(row),
    ]
}

/// The counters, and the faults of each contender.
fn remarks(row: &Row) -> String {
    let mut remarks = Vec::new();
    if let Some(fault) = &row.fault {
        remarks.push(format!("FAILED: {fault}"));
    }
    if let Some(counts) = &row.counts {
        let of = |name: &str| counts.get(name).copied().unwrap_or(0);
        let copies = if row.bytes == 0 { 0.0 } else { of("copied_bytes") as f64 / row.bytes as f64 };
        let (calls, messages) = (of("system_calls"), of("messages"));
        let a_rank = |name| of(name) as f64 / f64::from(row.ranks.max(1));
        let (collectives, barriers) = (a_rank("collectives"), a_rank("barriers"));
        remarks.push(format!(
            "{copies:.2} copies/B, {calls} calls, {messages} messages, {collectives} collectives and {barriers} \
             barriers per rank"
        ));
    }
    if let Some((trips, seconds)) = row.round_trips.zip(row.round_trip_seconds) {
        let words =
            row.counts.as_ref().and_then(|counts| counts.get("word_operations")).copied().unwrap_or(0);
        let words = words as f64 / row.operations.max(1) as f64;
        remarks.push(format!(
            "atomic mode adds {trips:.2} raw round trips of {:.1} us, {words:.2} word operations",
            1e6 * seconds
        ));
    }
    for peer in &row.peers {
        if let Some(fault) = &peer.fault {
            remarks.push(format!("{} left out: {fault}", peer.name));
        } else if peer.strays > 0 {
            remarks.push(format!("{}: {} bytes in holes", peer.name, peer.strays));
        }
    }
    remarks.join("; ")
}

#[cfg(test)]
mod tests {
    use super::super::canned::{contender, group, sample};
    use super::super::{Sample, merge};
    use super::*;

    #[test]
    fn rates_times_and_remarks_are_shown() {
        let many = |id, seconds| Sample { operations: 100, ..sample(id, seconds) };
        let far = Sample { plain_seconds: Some(0.5), round_trip_seconds: Some(0.2), ..sample(1, 1.0) };
        let ours = contender("capulet", &[&[far, many(2, 0.01)]]);
        let strays = Sample { strays: 5, ..sample(1, 2.0) };
        let mut group = group(ours, vec![contender("romio", &[&[strays, many(2, 0.03)]])]);
        let counts = [
            ("copied_bytes", 500_000),
            ("system_calls", 12),
            ("messages", 6),
            ("collectives", 8),
            ("word_operations", 2),
        ];
        group.counts.insert(1, counts.map(|(name, value)| (name.to_owned(), value)).into());
        let text = table(&merge(&group));
        let line = |id: u32| {
            text.lines()
                .find(|line| line.contains(&format!("case {id}")))
                .expect("the table has the row")
                .to_owned()
        };
        for expected in [
            "MB/s",
            " 2.00 ",
            " 0.50 ",
            "6 messages, 2 collectives and 0 barriers per rank",
            "atomic mode adds 2.50 raw round trips of 200000.0 us, 2.00 word operations",
            "romio: 5 bytes in holes",
        ] {
            assert!(line(1).contains(expected), "{expected} in {}", line(1));
        }
        for expected in ["us/op", " 100.0 ", " 300.0 ", " 3.00 "] {
            assert!(line(2).contains(expected), "{expected} in {}", line(2));
        }
    }
}
