//! Hints change the number of system calls. The statistics of the library show the number.

use capulet_tests::{Job, Mpi, compile};

/// Counts the calls of one read and one write of 4,096 pieces in 128 KiB, for several sieve buffers.
#[test]
#[cfg_attr(native_io, ignore = "is about Capulet alone")]
fn sieve_hints_set_the_number_of_calls() {
    let mpi = Mpi::chosen();
    // A read takes one call for each sieve buffer. A write takes two: it reads the buffer first.
    for (mode, bytes, calls) in [
        ("enable", "262144", 3),
        ("enable", "4096", 32 + 64),
        ("disable", "4096", 8192),
        ("automatic", "262144", 3),
    ] {
        let job = Job::new(mpi, 1, compile::c(mpi, "hint_keys"))
            .arg(mode)
            .arg(bytes)
            .variable("CAPULET_STATS", "1");
        let outcome = job.run();
        let what = format!("romio_ds_read={mode} ind_rd_buffer_size={bytes}");
        outcome.expect_checks(&what);
        let words = outcome.text.split_whitespace();
        let pieces: Vec<u64> = words.filter_map(|word| word.strip_prefix("pieces=")?.parse().ok()).collect();
        assert_eq!(pieces, [calls], "{what}: {}", outcome.text);
    }
}
