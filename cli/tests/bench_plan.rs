//! `capulet bench plan`: the memory and the messages of one rank of many. The tests check counts only,
//! never times.

use std::fs;
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

fn said(words: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_capulet"));
    let output = command.args(["bench", "plan", "--quick"]).args(words).output().expect("the command starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("valid UTF-8")
}

fn rows(view: &str) -> Vec<Value> {
    let rows: Value = serde_json::from_str(&said(&["--json", "--case", view])).expect("valid JSON");
    rows.as_array().expect("the JSON is a list of rows").clone()
}

fn number(row: &Value, path: &str) -> u64 {
    row.pointer(path).and_then(Value::as_u64).unwrap_or_else(|| panic!("{path} in {row}"))
}

/// Bytes for each node in the tables of nodes: its ranks (4), the collective buffers before it (8), and
/// whether it knows the view (1).
const NODE_BYTES: u64 = 13;
/// The same while the tables are made, with the lists of aggregators.
const NODE_BYTES_PEAK: u64 = NODE_BYTES + 64;

#[test]
fn memory_of_a_strided_view_is_independent_of_ranks() {
    let rows = rows("strided");
    assert_eq!(rows.iter().map(|row| number(row, "/ranks")).collect::<Vec<_>>(), [1_000, 10_000, 100_000]);
    for row in &rows {
        let nodes = number(row, "/nodes");
        assert_eq!(number(row, "/measured/view_bytes"), number(&rows[0], "/measured/view_bytes"), "{row}");
        assert!(number(row, "/measured/nodes_bytes") <= NODE_BYTES * nodes + 8, "{row}");
        assert!(number(row, "/measured/peak_bytes") <= 4096 + NODE_BYTES_PEAK * nodes, "{row}");
        // Each node gets a header and a description of tens of bytes.
        let met = number(row, "/measured/nodes_met");
        assert!(met > 0 && number(row, "/measured/described_bytes") <= met * (28 + 100), "{row}");
        let [ours, romio] =
            ["ours", "romio"].map(|who| number(row, &format!("/formulas/{who}/memory_bytes")));
        assert!(ours * 10 < romio, "{row}");
    }
    // The whole file is in the first round: 10^7 pieces of 8 bytes.
    let bytes: Vec<u64> = rows.iter().map(|row| number(row, "/measured/bytes_of_round")).collect();
    assert_eq!(bytes, [80_000, 8_000, 800]);
}

#[test]
fn memory_of_a_list_grows_with_its_pieces() {
    for row in rows("irregular") {
        let (nodes, pieces) = (number(&row, "/nodes"), number(&row, "/pieces_of_rank"));
        assert!(number(&row, "/measured/view_bytes") <= 2 * 16 * pieces + 4096, "{row}");
        let peak = number(&row, "/measured/peak_bytes");
        assert!(peak <= 4 * 16 * pieces + 4096 + NODE_BYTES_PEAK * nodes, "{row}");
        // Each run is described once, in fewer bytes than an offset and a length. A short list is sent
        // whole.
        let met = number(&row, "/measured/nodes_met");
        assert!(
            number(&row, "/measured/described_bytes") <= met * (28 + 4096).max(28 + 8 * pieces / met),
            "{row}"
        );
    }
}

#[test]
fn table_shows_growth_and_drawing_is_valid() {
    let folder = TempDir::new().expect("a temporary folder is created");
    let path = folder.path().join("plan.svg");
    let saved = folder.path().join("plan.json");
    let names = [&path, &saved].map(|path| path.to_str().expect("valid UTF-8"));
    let text = said(&["--svg", names[0], "--save", names[1]]);
    assert_eq!(text.lines().filter(|line| line.starts_with("grows as")).count(), 2);
    assert_eq!(
        text.lines().filter(|line| line.starts_with("strided") || line.starts_with("irregular")).count(),
        6
    );
    let drawn = fs::read_to_string(&path).expect("the drawing is readable");
    let tree = roxmltree::Document::parse(&drawn).expect("the SVG is valid XML");
    let lines = tree.descendants().filter(|node| node.tag_name().name() == "polyline");
    assert_eq!(lines.count(), 9);
    let rows: Value = serde_json::from_str(&fs::read_to_string(&saved).expect("the rows are readable"))
        .expect("valid JSON");
    assert_eq!(rows.as_array().map(Vec::len), Some(6));
}
