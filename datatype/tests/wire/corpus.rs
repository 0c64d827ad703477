//! The corpus from which fuzzing starts: a message of each constructor, and every message that once showed
//! an error.

use std::fs;
use std::path::Path;

use capulet_datatype::Datatype;

use crate::nodes;
use crate::properties::decode_and_use;

#[test]
#[cfg_attr(miri, ignore = "reads a folder")]
fn fuzz_corpus_is_decoded() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus/wire");
    let mut accepted = 0;
    for entry in fs::read_dir(folder).expect("the corpus is readable") {
        let message =
            nodes(&fs::read(entry.expect("the file is readable").path()).expect("the file is readable"));
        decode_and_use(&message);
        accepted += u32::from(Datatype::from_wire(&message).is_ok());
    }
    assert!(accepted >= 20, "only {accepted} types accepted");
}
