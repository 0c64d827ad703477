//! The number of cases that a property test tries.

use proptest::test_runner::Config;

/// `PROPTEST_CASES` if it is set; else `under_miri` under Miri, where everything takes a thousand times as
/// long, and `usual` elsewhere.
pub(crate) fn cases(usual: u32, under_miri: u32) -> Config {
    let asked = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok());
    Config {
        failure_persistence: None,
        cases: asked.unwrap_or(if cfg!(miri) { under_miri } else { usual }),
        max_local_rejects: 10_000_000,
        ..Config::default()
    }
}
