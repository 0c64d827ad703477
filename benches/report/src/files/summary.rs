//! Summarizes the rows.

use std::fmt::Write as _;

use super::median;
use super::merge::Row;

/// Returns, for each MPI, storage, number of ranks and suite, the geometric mean of the ratios and the
/// rows below 1, worst first; the rows that were left out; and the rows in which Capulet failed. For accesses
/// of a rank that is alone in atomic mode also the raw round trip, and how many of them atomic mode adds.
pub fn summary(rows: &[Row]) -> String {
    let mut text = String::new();
    let mut parts: Vec<[&str; 4]> = Vec::new();
    let ranks: Vec<String> = rows.iter().map(|row| row.ranks.to_string()).collect();
    let names: Vec<[&str; 4]> = rows
        .iter()
        .zip(&ranks)
        .map(|(row, ranks)| [row.mpi.as_str(), row.storage.as_str(), ranks.as_str(), row.head.suite.as_str()])
        .collect();
    for name in &names {
        if !parts.contains(name) {
            parts.push(*name);
        }
    }
    for part in parts {
        let of_part: Vec<&Row> =
            rows.iter().zip(&names).filter(|(_, name)| **name == part).map(|(row, _)| row).collect();
        let [mpi, storage, ranks, suite] = part;
        put(&mut text, format_args!("{mpi}, {storage}, {ranks} ranks, {suite}: "));
        describe(&mut text, &of_part);
    }
    text
}

fn describe(text: &mut String, rows: &[&Row]) {
    let mut compared: Vec<(&Row, f64)> =
        rows.iter().filter_map(|row| row.ratio.map(|ratio| (*row, ratio))).collect();
    compared.sort_by(|a, b| a.1.total_cmp(&b.1));
    if let Some((_, worst)) = compared.first() {
        let mean = (compared.iter().map(|(_, ratio)| ratio.ln()).sum::<f64>() / compared.len() as f64).exp();
        let below = compared.iter().filter(|(_, ratio)| *ratio < 1.0).count();
        let count = compared.len();
        put(
            text,
            format_args!(
                "{mean:.2} x the faster peer (geometric mean of {count} rows), worst {worst:.2}, {below} below 1.0\n"
            ),
        );
    } else {
        text.push_str("no row has a peer\n");
    }
    for (row, ratio) in compared.iter().filter(|(_, ratio)| *ratio < 1.0) {
        let share = row.limit_share.map_or(String::new(), |share| format!(", {share:.2} of the limit"));
        let peer = row.peer.as_deref().unwrap_or("-");
        put(text, format_args!("  {ratio:6.2}  {}  ({peer}{share})\n", title(row)));
    }
    trips(text, rows);
    for row in rows {
        if let Some(fault) = &row.fault {
            put(text, format_args!("  FAILED  {}: {fault}\n", title(row)));
        } else if row.ratio.is_none() {
            put(text, format_args!("  alone   {}: no peer completed it\n", title(row)));
        }
    }
}

/// One line for the raw round trip, and one for each row that counts in round trips.
fn trips(text: &mut String, rows: &[&Row]) {
    let mut seconds: Vec<f64> = rows.iter().filter_map(|row| row.round_trip_seconds).collect();
    let Some(seconds) = median(&mut seconds) else { return };
    put(text, format_args!("  raw round trip: {:.1} us\n", 1e6 * seconds));
    for row in rows {
        let Some((trips, plain)) = row.round_trips.zip(row.plain_seconds) else { continue };
        let plain_us = 1e6 * plain / row.operations.max(1) as f64;
        let title = title(row);
        put(
            text,
            format_args!(
                "  {trips:6.2}  round trips are added by atomic mode: {title} (without {plain_us:.1} us"
            ),
        );
        for peer in &row.peers {
            if let Some(trips) = peer.round_trips {
                put(text, format_args!("; {} {trips:.2}", peer.name));
            }
        }
        text.push_str(")\n");
    }
}

fn title(row: &Row) -> String {
    let head = &row.head;
    format!("{} {} {}", head.case, head.op, head.state)
}

fn put(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = text.write_fmt(arguments);
}

#[cfg(test)]
mod tests {
    use super::super::canned::{contender, group, sample};
    use super::super::{Sample, merge};
    use super::*;

    #[test]
    fn summary_has_means_and_rows_below_one() {
        let ours: Vec<_> = (1..=4).map(|id| sample(id, 1.0)).collect();
        let theirs = [sample(1, 0.5), sample(2, 2.0), sample(3, 8.0)];
        let mut group = group(contender("capulet", &[&ours]), vec![contender("romio", &[&theirs])]);
        let text = summary(&merge(&group));
        let expected = "openmpi, tmpfs, 4 ranks, collective: 2.00 x the faster peer (geometric mean of 3 rows), worst 0.50, 1 below 1.0";
        assert!(text.contains(expected), "{text}");
        assert!(text.contains("    0.50  case 1 write fresh  (romio, 0.50 of the limit)"), "{text}");
        assert!(text.contains("alone   case 4 write fresh"), "{text}");
        group.ours.runs[0][3].fault = Some("bad".into());
        assert!(summary(&merge(&group)).contains("FAILED  case 4 write fresh: bad"));
    }

    #[test]
    fn summary_counts_in_raw_round_trips() {
        let far = |seconds| Sample {
            plain_seconds: Some(1e-4),
            round_trip_seconds: Some(2e-4),
            ..sample(1, seconds)
        };
        let ours = contender("capulet", &[&[far(5e-4), sample(2, 1.0)]]);
        let text = summary(&merge(&group(ours, vec![contender("romio", &[&[far(8e-4)]])])));
        assert!(text.contains("  raw round trip: 200.0 us\n"), "{text}");
        let line = "    2.00  round trips are added by atomic mode: case 1 write fresh (without 100.0 us; romio 3.50)";
        assert!(text.contains(line), "{text}");
        assert_eq!(text.matches("round trips").count(), 1);
    }

    #[test]
    fn summary_of_no_rows_is_empty() {
        assert_eq!(summary(&[]), "");
    }
}
