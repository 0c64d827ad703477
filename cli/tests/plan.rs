//! `capulet plan`: its text, its drawing, and the input that it refuses.

use std::fs;
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

fn capulet(words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_capulet"));
    command.arg("plan").args(words).output().expect("the command starts")
}

/// The output of a plan that succeeds.
fn said(words: &[&str]) -> String {
    let output = capulet(words);
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{words:?}: {complaints}");
    String::from_utf8(output.stdout).expect("valid UTF-8")
}

fn json(words: &[&str]) -> Value {
    serde_json::from_str(&said(&[words, &["--json"]].concat())).expect("valid JSON")
}

const STRIDED: [&str; 7] = ["strided", "--block", "64", "--stride", "256", "--ranks", "4"];

#[test]
fn text_of_a_small_plan_is_right() {
    let expected = "\
Access    Collective write of 4 ranks on 2 nodes: 38,400 bytes in 600 runs of 64 bytes on average,
          from file offset 0 up to 38,400.
Plan      Two-phase, with collective buffers: 600 runs, each too small for a system call of its own.
Buffers   2 aggregators with 8.00 KiB each; rounds begin at multiples of 4.00 KiB; one mark for 64 bytes
Nodes     exchange data: each collective buffer holds the bytes of all nodes in its range
Rounds    3
             1  0 to 16,384: 16.00 KiB, 2 pieces, buffers of 2 ranks, 0 to 2
             2  16,384 to 32,768: 16.00 KiB, 2 pieces, buffers of 2 ranks, 0 to 2
             3  32,768 to 40,960: 5.50 KiB, 1 piece, buffer of rank 0
Calls     5 pieces of the file in 5 batches, at most one system call for each piece
Copies    38,400 bytes from or to user memory
Barriers  10 on a node, and two agreements of all ranks
Messages  16 between nodes, with 19,688 bytes of data and descriptions
Memory    72.00 KiB shared on a node: collective buffers and maps of marks
";
    let more = ["--count", "150", "--nodes", "2", "--hint", "cb_buffer_size=8192", "--hint", "cb_nodes=2"];
    assert_eq!(said(&[&STRIDED[..], &more[..]].concat()), expected);
}

#[test]
fn every_plan_has_its_reason() {
    let blocks = ["blocks", "--size", "64,64,64", "--grid", "2,2,1"];
    let cases: [(&[&str], &str, &str); 6] = [
        (&[], "collective", "small_runs"),
        (&["--hint", "romio_cb_write=disable"], "independent", "hint"),
        (&["--hint", "romio_cb_write=disable", "--read"], "collective", "small_runs"),
        (&["--hint", "romio_no_indep_rw=true"], "collective", "hint"),
        (&["--independent"], "independent", "independent"),
        (&["--element-bytes", "0"], "nothing", ""),
    ];
    for (words, kind, reason) in cases {
        let plan = json(&[&blocks[..], words].concat());
        assert_eq!(plan["plan"]["kind"], kind, "{words:?}");
        assert_eq!(plan["plan"]["reason"].as_str().unwrap_or_default(), reason, "{words:?}");
    }
    let plan = json(&["blocks", "--size", "256,256,256", "--grid", "2,2,1"]);
    assert_eq!((&plan["plan"]["reason"], &plan["ranks"]), (&"large_runs".into(), &4.into()));
    assert_eq!(plan["steps"]["ranks"][3]["pieces"], 128);
    let plan = json(&["strided", "--block", "64", "--stride", "1000000"]);
    assert_eq!(plan["plan"]["reason"], "sparse");
    let plan = json(&["strided", "--block", "64", "--stride", "64", "--count", "5", "--shift", "1000"]);
    assert_eq!(plan["plan"]["reason"], "one_run_each");
}

#[test]
fn list_of_runs_is_planned() {
    let folder = TempDir::new().expect("a temporary folder is created");
    let path = folder.path().join("runs.csv");
    fs::write(&path, "# rank,offset,length\n0,0,100\n1,100,50\n0,150,50\n2,1000,8\n")
        .expect("the file is written");
    let name = path.to_str().expect("valid UTF-8");
    let plan = json(&["runs", name, "--ranks", "4"]);
    assert_eq!((&plan["ranks"], &plan["access"]["bytes"]), (&4.into(), &208.into()));
    let buffers = &plan["steps"]["node_sets"][0]["listed_rounds"][0]["buffers"];
    assert_eq!(buffers[0]["bytes_by_rank"], serde_json::json!([[0, 150], [1, 50], [2, 8]]));
    // The offsets of rank 0 decrease.
    fs::write(&path, "0,100,10\n0,0,10\n1,50,1\n").expect("the file is written");
    assert_eq!(json(&["runs", name])["plan"]["reason"], "not_monotone");
}

#[test]
fn bad_input_is_an_error_and_no_plan() {
    let folder = TempDir::new().expect("a temporary folder is created");
    let path = folder.path().join("runs.csv");
    let name = path.to_str().expect("valid UTF-8");
    for (text, expected) in [
        ("0,1,2\n1,2\n", "line 2: 2 fields"),
        ("0,1,x\n", "length \"x\" is not a whole number"),
        ("70000,1,1\n", "rank 70000 is beyond 65535"),
        ("0,9223372036854775807,1\n", "beyond 2^63 - 1"),
        ("", "no runs"),
    ] {
        fs::write(&path, text).expect("the file is written");
        let output = capulet(&["runs", name]);
        let complaints = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{text}: {complaints}");
        assert!(complaints.contains(expected) && complaints.contains("runs.csv"), "{text}: {complaints}");
    }
    let missing = folder.path().join("missing");
    for words in [
        &["runs", missing.to_str().expect("valid UTF-8")][..],
        &["strided", "--block", "0", "--stride", "1"],
        &["strided", "--block", "8"],
        &["strided", "--block", "8", "--stride", "16", "--ranks", "0"],
        &["strided", "--block", "8", "--stride", "16", "--ranks", "100000"],
        &["strided", "--block", "8", "--stride", "16", "--nodes", "5"],
        &["strided", "--block", "8", "--stride", "16", "--hint", "cb_nodes=x"],
        &["strided", "--block", "8", "--stride", "16", "--hint", "no_such=1"],
        &["strided", "--block", "8", "--stride", "18446744073709551615"],
        &["strided", "--block", "8", "--stride", "16", "--read", "--write"],
        &["blocks", "--size", "4,4", "--grid", "2"],
        &["blocks", "--size", "4,4", "--grid", "2,8"],
        &["blocks", "--size", "4,4", "--grid", "2,2", "--ranks", "3"],
        &[],
    ] {
        let output = capulet(words);
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        assert!(output.stdout.is_empty() && !output.stderr.is_empty(), "{words:?}");
    }
}

/// The drawing, and the number of elements of each kind under each `id`.
fn drawing(words: &[&str]) -> (String, Vec<(String, usize)>) {
    let folder = TempDir::new().expect("a temporary folder is created");
    let path = folder.path().join("plan.svg");
    let _ = said(&[words, &["--svg", path.to_str().expect("valid UTF-8")]].concat());
    let text = fs::read_to_string(&path).expect("the drawing is readable");
    let tree = roxmltree::Document::parse(&text).expect("the SVG is valid XML");
    assert_eq!(tree.root_element().tag_name().name(), "svg");
    let with_id = tree.descendants().filter_map(|node| Some((node.attribute("id")?.to_owned(), node)));
    let count = |node: roxmltree::Node<'_, '_>| {
        node.descendants().filter(|inner| ["rect", "line"].contains(&inner.tag_name().name())).count()
    };
    let counts = with_id.map(|(id, node)| (id, count(node))).collect();
    (text, counts)
}

fn marks_of(counts: &[(String, usize)], id: &str) -> usize {
    counts.iter().find(|(name, _)| name == id).map_or(0, |(_, count)| *count)
}

#[test]
fn drawing_has_lanes_buffers_and_rounds() {
    let hint = ["--count", "100", "--hint", "cb_buffer_size=4096", "--hint", "cb_nodes=2"];
    let (text, counts) = drawing(&[&STRIDED[..], &hint[..]].concat());
    for rank in 0..4 {
        // On 25,600 bytes in 900 columns, each column has bytes of every rank's blocks or of none.
        let marks = marks_of(&counts, &format!("lane-{rank}"));
        assert!((100..=900).contains(&marks), "{marks} of rank {rank}");
    }
    assert_eq!((marks_of(&counts, "buffers"), marks_of(&counts, "rounds")), (7, 4));
    assert!(text.contains("collective buffer of rank 2") && text.contains("file offset"));
    // An independent access has no collective buffers.
    let (_, counts) = drawing(&[&STRIDED[..], &["--independent"]].concat());
    assert!(marks_of(&counts, "lane-3") > 0 && !counts.iter().any(|(id, _)| id == "buffers"));
}

#[test]
fn drawings_and_plans_are_bounded() {
    let huge = ["strided", "--block", "8", "--stride", "524288", "--ranks", "65536", "--count", "1000000"];
    let more = ["--nodes", "64", "--hint", "cb_buffer_size=65536"];
    let (text, _) = drawing(&[&huge[..], &more[..]].concat());
    assert!(text.len() < 4 << 20, "{} bytes", text.len());
    let plan = json(&[&huge[..], &more[..]].concat());
    assert_eq!(plan["steps"]["node_sets"][0]["whole"], false);
    assert!(plan.to_string().len() < 8 << 20);
    let many = ["strided", "--block", "1", "--stride", "4", "--ranks", "4", "--count", "3000000"];
    let (text, counts) = drawing(&[&many[..], &["--hint", "cb_buffer_size=4096"]].concat());
    assert!(text.len() < 1 << 20, "{} bytes", text.len());
    assert!(marks_of(&counts, "buffers") <= 900 && marks_of(&counts, "rounds") <= 901);
}
