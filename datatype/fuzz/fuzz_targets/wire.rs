//! Messages from untrusted senders: the input is the nodes of a message, which gets a header and a matching
//! checksum. An accepted type is asked everything that a type can be asked, and is sent again.
//!
//! `scripts/fuzz.sh` runs this target. The corpus holds a message of each constructor.

#![no_main]

#[path = "../../tests/wire/questions.rs"]
mod questions;

use capulet_datatype::Datatype;
use libfuzzer_sys::{Corpus, fuzz_target};

fuzz_target!(|nodes: &[u8]| -> Corpus {
    let mut message = [b"CDT\x01", nodes].concat();
    let checksum = crc32fast::hash(&message);
    message.extend(checksum.to_le_bytes());
    let Ok(datatype) = Datatype::from_wire(&message) else { return Corpus::Keep };
    questions::interrogate(&datatype);
    for again in [datatype.to_wire(), datatype.layout_to_wire()] {
        let again = Datatype::from_wire(&again).expect("the library's own message decodes");
        assert_eq!(again.bounds(), datatype.bounds());
        assert_eq!(again.layout(), datatype.layout());
    }
    let again = Datatype::from_wire(&datatype.to_wire()).expect("the library's own message decodes");
    questions::assert_equal(&again, &datatype);
    Corpus::Keep
});
