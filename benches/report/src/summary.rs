//! Summarizes the rows.

use std::fmt::Write as _;

use crate::merge::Row;

/// A row whose ratio is below this counts as behind.
const BEHIND: f64 = 0.95;
const WORST_ROWS: usize = 5;

/// Returns the geometric mean of the ratios to the best MPI, for each suite and over all; the worst rows;
/// and the number of rows that are behind. For transpacking also the medians by count, and the count from
/// which on a copy program pays.
pub fn summary(rows: &[Row]) -> String {
    let mut compared: Vec<(&Row, f64)> =
        rows.iter().filter_map(|row| row.ratio.map(|ratio| (row, ratio))).collect();
    let mut text = String::new();
    if compared.is_empty() {
        return text;
    }
    let mut suites: Vec<&str> = Vec::new();
    for (row, _) in &compared {
        if !suites.contains(&row.suite.as_str()) {
            suites.push(&row.suite);
        }
    }
    for suite in &suites {
        let ratios: Vec<f64> =
            compared.iter().filter(|(row, _)| row.suite == *suite).map(|(_, ratio)| *ratio).collect();
        line(&mut text, suite, &ratios);
    }
    if suites.len() > 1 {
        line(&mut text, "all", &compared.iter().map(|(_, ratio)| *ratio).collect::<Vec<_>>());
    }
    reachable(&mut text, rows);
    compared.sort_by(|a, b| a.1.total_cmp(&b.1));
    text.push_str("worst rows against the best MPI:\n");
    for (row, ratio) in compared.iter().take(WORST_ROWS) {
        let name = row.peer_name.as_deref().unwrap_or("-");
        let Row { suite, case, element, op, .. } = row;
        put(&mut text, format_args!("  {ratio:6.2}  {suite} {case} {element} {op}  ({name})\n"));
    }
    by_count(&mut text, rows);
    break_even(&mut text, rows, "new+copy", "with cached programs");
    break_even(&mut text, rows, "fresh+copy", "with newly compiled programs");
    break_even(&mut text, rows, "setup+copy", "with new types, layouts and programs on both sides");
    text
}

fn put(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = text.write_fmt(arguments);
}

fn line(text: &mut String, name: &str, ratios: &[f64]) {
    let behind = ratios.iter().filter(|ratio| **ratio < BEHIND).count();
    let mean = geometric_mean(ratios);
    let worst = ratios.iter().copied().fold(f64::INFINITY, f64::min);
    let rows = ratios.len();
    put(
        text,
        format_args!(
            "{name}: {mean:.2} x the best MPI (geometric mean of {rows} rows), worst {worst:.2}, \
             {behind} below {BEHIND}\n"
        ),
    );
}

/// The mean that would result if each row were as fast as the touched lines or the loops.
fn reachable(text: &mut String, rows: &[Row]) {
    let both: Vec<(f64, f64)> =
        rows.iter().filter_map(|row| Some((row.ratio?, row.reachable_ratio()?))).collect();
    if both.is_empty() {
        return;
    }
    let (ours, best): (Vec<f64>, Vec<f64>) = both.into_iter().unzip();
    let (rows, ours, best) = (ours.len(), geometric_mean(&ours), geometric_mean(&best));
    put(
        text,
        format_args!(
            "lines: {ours:.2} x the best MPI (geometric mean of the {rows} rows of moves); {best:.2} if each row \
             were as fast as touching its cache lines (or as the loops if they are faster)\n"
        ),
    );
}

fn geometric_mean(ratios: &[f64]) -> f64 {
    (ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len() as f64).exp()
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 { values[middle] } else { f64::midpoint(values[middle - 1], values[middle]) }
}

/// Transpacking: medians over the pairs, for each count.
fn by_count(text: &mut String, rows: &[Row]) {
    let copies: Vec<&Row> = rows.iter().filter(|row| row.suite == "transpack" && row.op == "copy").collect();
    let mut counts: Vec<u64> = copies.iter().map(|row| row.count).collect();
    counts.sort_unstable();
    counts.dedup();
    for count in counts {
        let mut ratios: Vec<f64> =
            copies.iter().filter(|row| row.count == count).filter_map(|row| row.ratio).collect();
        if ratios.is_empty() {
            continue;
        }
        let least = ratios.iter().copied().fold(f64::INFINITY, f64::min);
        let (pairs, median) = (ratios.len(), median(&mut ratios));
        put(
            text,
            format_args!(
                "transpack x{count}: median {median:.2} x pack + unpack of the best MPI over {pairs} pairs, \
                 worst {least:.2}\n"
            ),
        );
    }
}

/// Transpacking with a set-up included, as in `op`: the first count at which Capulet is not behind.
fn break_even(text: &mut String, rows: &[Row], op: &str, how: &str) {
    let charged: Vec<&Row> = rows.iter().filter(|row| row.suite == "transpack" && row.op == op).collect();
    let mut seen: Vec<&str> = Vec::new();
    let mut found: Vec<String> = Vec::new();
    for row in &charged {
        let pair = pair_of(&row.case);
        if seen.contains(&pair) {
            continue;
        }
        seen.push(pair);
        let points: Vec<(u64, f64)> = charged
            .iter()
            .filter(|other| pair_of(&other.case) == pair)
            .filter_map(|other| other.ratio.map(|ratio| (other.count, ratio)))
            .collect();
        let number = pair.split(' ').next().unwrap_or(pair);
        found.push(match crossing(&points) {
            Some(count) => format!("{number} {count:.0}"),
            None => format!("{number} never"),
        });
    }
    if !found.is_empty() {
        let found = found.join(", ");
        put(text, format_args!("transpack {how}: break-even number of instances: {found}\n"));
    }
}

/// Name of a pair without the count.
fn pair_of(case: &str) -> &str {
    case.rsplit_once(" x").map_or(case, |(pair, _)| pair)
}

/// The count at which the ratio reaches 1, interpolated between the measured counts by their logarithms.
fn crossing(points: &[(u64, f64)]) -> Option<f64> {
    let mut before: Option<(u64, f64)> = None;
    for &(count, ratio) in points {
        if ratio >= 1.0 {
            let Some((count_before, ratio_before)) = before else { return Some(count as f64) };
            let part = -ratio_before.ln() / (ratio.ln() - ratio_before.ln());
            let (low, high) = ((count_before as f64).ln(), (count as f64).ln());
            return Some((low + part * (high - low)).exp());
        }
        before = Some((count, ratio));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn break_even_lies_between_the_counts() {
        assert_eq!(crossing(&[(1, 1.5), (10, 3.0)]), Some(1.0));
        assert_eq!(crossing(&[(1, 0.1), (10, 0.9)]), None);
        let found = crossing(&[(1, 0.1), (10, 0.5), (100, 2.0)]).expect("the ratio reaches 1");
        assert!((found - 31.62).abs() < 0.01, "{found}");
    }

    #[test]
    fn means_and_medians_are_right() {
        assert!((geometric_mean(&[0.5, 2.0, 8.0]) - 2.0).abs() < 1e-12);
        assert!((median(&mut [3.0, 1.0, 2.0, 10.0]) - 2.5).abs() < 1e-12);
        assert!((median(&mut [3.0, 1.0, 2.0]) - 2.0).abs() < 1e-12);
    }

    #[test]
    fn pair_name_has_no_count() {
        assert_eq!(pair_of("X1 vec(4,1,2)d>vec(2,2,3)d x1000"), "X1 vec(4,1,2)d>vec(2,2,3)d");
    }
}
